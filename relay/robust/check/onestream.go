package check

import (
	"fmt"
	"maps"
	"slices"

	"xdsrelay/relay/robust/record"
)

// oneStream: at rest the origin sees exactly one stream for each key; of a key whose
// clients are all away maybe none.
type oneStream struct{}

func (oneStream) name() string { return "OneStream" }

func (v oneStream) check(m *Model, e *record.Event) []string { return atRest(v, m, e) }

func (oneStream) unsettled(m *Model) (open []string) {
	streams, keys := m.Streams(), m.keys()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if n := streams[key]; n != 1 && (keys[key] || n > 1) {
			open = append(open, fmt.Sprintf("the origin has %d streams for key %s", n, key))
		}
		delete(streams, key)
	}
	for _, key := range slices.Sorted(maps.Keys(streams)) {
		open = append(open, fmt.Sprintf("the origin has %d streams for key %s, which has no clients", streams[key], key))
	}
	return open
}
