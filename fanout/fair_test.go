package fanout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestNamesOfOneClientGiveWay: a client that fills the bound on the names of its key with names
// that do not exist at the control plane does not keep out clients with fewer names: its newest
// names are dropped, with an error that says so, and the resources that it does get stay. A dropped
// name is subscribed upstream again when another client subscribes to it. Names that the control
// plane serves are not dropped (C16, K15).
func TestNamesOfOneClientGiveWay(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorldOf(t, cache.Config{Streams: []cache.OriginStream{{MaxNames: 1000}}}).listen()
		many, few, other, late := w.open(delta), w.open(delta), w.open(delta), w.open(delta)
		names := make([]string, 9) // of 100 bytes in a request
		for i := range names {
			names[i] = fmt.Sprint("m", i, strings.Repeat("x", 93))
		}
		many.Subscribe(eds, names[:5]...)
		w.asked(eds, names[:5]...)
		w.change(eds, nil, endpoints(names[0], 1))
		many.Ack(has(t, many.Recv(t), names[0]))
		many.Subscribe(eds, names[5:]...)
		w.asked(eds, names...)

		ask := strings.Repeat("f", 195)
		few.Subscribe(eds, ask)
		stay := append(slices.Clone(names[:5]), ask)
		w.asked(eds, stay...)
		var gone []string
		for len(gone) < 4 {
			f := many.Recv(t)
			for _, e := range f.Errors {
				if e.GetErrorDetail().GetCode() != resource.CodeResourceExhausted || !strings.Contains(e.GetErrorDetail().GetMessage(), "upstream.max_names_size") {
					t.Errorf("the error is %v", e)
				}
				gone = append(gone, e.GetResourceName().GetName())
			}
			many.Ack(f)
		}
		if slices.Sort(gone); !slices.Equal(gone, names[5:]) {
			t.Errorf("%q gave way, expected %q", gone, names[5:])
		}
		w.change(eds, nil, endpoints(ask, 1))
		few.Ack(has(t, few.Recv(t), ask))

		other.Subscribe(eds, names[7])
		w.asked(eds, append(stay, names[7])...)
		w.change(eds, nil, endpoints(names[7], 1))
		other.Ack(has(t, other.Recv(t), names[7]))
		if f := many.Recv(t); !slices.Contains(f.Names(), names[7]) {
			t.Errorf("the client that lost the name gets %v", f)
		} else {
			many.Ack(f)
		}
		for _, n := range names[1:5] {
			w.change(eds, nil, endpoints(n, 1))
			f := many.Recv(t)
			many.Ack(f)
		}
		late.Subscribe(eds, strings.Repeat("l", 395))
		refusedWith(t, late, codes.ResourceExhausted, "upstream.max_names_size")
		w.asked(eds, append(stay, names[7])...)
	})
}
