package check

import (
	"bytes"
	"encoding/json"
	"testing"

	"xdsrelay/relay/robust/record"
)

// FuzzSuite: a recording in any order, or with anything left out, is judged without
// harm, and twice in the same way.
func FuzzSuite(f *testing.F) {
	for _, events := range [][]record.Event{
		start(),
		start(origin(clusterType, "a", 4), sotw(2, clusterType, res("a", 1)), removed(1, endpointType, "a"), at(record.NodeDown, "n"), ended(1), at(record.NodeUp, "n"), at(record.Rest, "")),
		{{Kind: record.ClientGot, Stream: 1, Type: clusterType}, {Kind: record.ClientNew, Client: "d"}, opened("d", 1, "n"), got(1, clusterType, res("a", 0)), ended(1), ended(1)},
	} {
		var lines bytes.Buffer
		for i := range events {
			if err := json.NewEncoder(&lines).Encode(&events[i]); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(lines.Bytes())
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		judge := func() (found, open int) {
			s := New(Options{Tier: true, Digests: true})
			decoder := json.NewDecoder(bytes.NewReader(lines))
			for seq := 1; seq < 1000; seq++ {
				var e record.Event
				if decoder.Decode(&e) != nil {
					break
				}
				e.Seq = seq // as the recorder numbers them
				for _, c := range s.Observe(&e) {
					_ = c.String()
					found++
				}
			}
			return found, len(s.Unsettled()) + len(s.Unconverged())
		}
		found, open := judge()
		if again, stillOpen := judge(); again != found || stillOpen != open {
			t.Errorf("%d contradictions and %d things open, then %d and %d", found, open, again, stillOpen)
		}
	})
}
