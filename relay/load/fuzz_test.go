package load

import (
	"testing"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzReport: whatever a client reports, it is refused or added up, and takes no
// more room than there is.
func FuzzReport(f *testing.F) {
	good, err := proto.Marshal(&lrsv3.LoadStatsRequest{ClusterStats: of("c", zone("z", 1, 1))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &lrsv3.LoadStatsRequest{}
		if proto.Unmarshal(raw, m) != nil || Check(m.GetClusterStats()) != nil {
			return
		}
		const room = 2000
		s := sumsOf(room)
		now := time.Now()
		client := &Client{}
		held, _ := s.report(client, m.GetClusterStats(), now, nil)
		if s.room < 0 {
			t.Fatalf("%d bytes of room", s.room)
		}
		out := s.take(now.Add(time.Second), nil)
		if err := Check(out); err != nil {
			t.Fatalf("what is told cannot be added up: %v", err)
		}
		s.giveBack(out, now.Add(time.Second))
		s.release(held)
		for range 3 {
			s.take(now.Add(2*time.Second), nil)
		}
		if client.charged != 0 || s.held != 0 || s.budget.used.Load() != 0 {
			t.Fatalf("%d bytes charged and %d held after all was reported", client.charged, s.held)
		}
		if s.room != room || len(s.clusters) != 0 {
			t.Fatalf("%d of %d bytes, %d clusters after all was told", s.room, room, len(s.clusters))
		}
	})
}
