package origin

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/goleak"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAcked: an ACK is recorded with what was accepted; a NACK is not, nor a response that the
// stream ends without an answer to.
func TestAcked(t *testing.T) {
	for _, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		t.Run(v.String(), func(t *testing.T) {
			to := record.NewRecorder()
			o := New(xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster), to, []string{"k"}, 1, false)
			c := xdstest.Dial(t, o.Addr())
			c.Node = xdstest.Node("node", "k")
			s := c.Open(v)
			s.Subscribe(xdstest.ClusterType)
			first := s.Recv(t)
			o.Touch("k")
			s.Ack(first)
			second := s.Recv(t)
			o.Touch("k")
			s.Nack(second, "no")
			s.Recv(t) // so the answers before have arrived
			s.Cancel()

			var sent []record.Event
			acked := 0
			for _, e := range to.Take() {
				switch e.Kind {
				case record.OriginSent:
					sent = append(sent, e)
				case record.OriginAcked:
					acked++
					if len(sent) != 1 || e.Key != "k" || e.Type != xdstest.ClusterType || len(e.Resources) != 1 || e.Resources[0] != sent[0].Resources[0] {
						t.Errorf("recorded %s after %v", &e, sent)
					}
				}
			}
			if acked != 1 || len(sent) != 3 {
				t.Errorf("recorded %d ACKs and %d responses, expected 1 and 3", acked, len(sent))
			}
		})
	}
}
