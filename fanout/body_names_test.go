package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNamesOfNothingAreNotKept: of names that one client subscribes to and the control plane has
// not answered, nothing stays once the client has unsubscribed: a body without content is not
// cached (K17).
func TestNamesOfNothingAreNotKept(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "there")
		w.asked(eds, "there")
		w.change(eds, nil, endpoints("there", 1))
		s.Ack(has(t, s.Recv(t), "there"))
		const rounds, names = 20, 100
		before := w.srv.bodies.Bytes()
		for i := range rounds {
			var all []string
			for j := range names {
				all = append(all, fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("n", 1000)))
			}
			s.Subscribe(eds, all...)
			s.Quiet(t, short)
			s.Unsubscribe(eds, all...)
			s.Quiet(t, short)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time: the linger time
		if more := w.srv.bodies.Bytes() - before; more > rounds*names*1000/10 {
			t.Errorf("%d bytes are kept after %d of names were asked for and dropped", more, rounds*names*1000)
		}
	})
}
