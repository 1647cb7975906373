package upstream

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// TestDefaultKeepaliveSuitsEveryServer: a server with the default settings of its gRPC library,
// which all permit one ping in five minutes, never ends a quiet stream of a relay with default
// settings.
func TestDefaultKeepaliveSuitsEveryServer(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t) // a bare grpc.NewServer
		r := newRig(t, ControlPlaneConfig{Addresses: []string{o.Addr()}, Delta: delta, DialOptions: []grpc.DialOption{memory.Option()}})
		c := r.join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, cds, "1", cluster("a", 1))
		c.waitState(cds, "a")
		time.Sleep(6 * time.Hour) //nolint:forbidigo // virtual time
		if n := len(o.Streams()); n != 1 {
			t.Errorf("%d streams in six quiet hours, expected the first to last", n)
		}
	})
}

// TestTooManyPings: if a server closes a connection because of too many pings, the relay pings it
// no more often than every server permits from then on, and if that is still too often, never
// again. Each of these is logged once, whatever the number of keys.
func TestTooManyPings(t *testing.T) {
	for _, tc := range []struct {
		keepalive time.Duration
		streams   int // of the key, in six hours
		logged    []string
	}{
		{30 * time.Second, 2, []string{"keepalive_was=30s keepalive=5m30s"}},
		{10 * time.Second, 2, []string{"keepalive_was=10s keepalive=5m30s"}},
		{-1, 1, nil},
		{6 * time.Minute, 1, nil},
	} {
		t.Run(fmt.Sprint(tc.keepalive), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var log logbook
				o := memory.NewStateOrigin(t, nil)
				o.Set("", cluster("a", 1))
				r := newRig(t, ControlPlaneConfig{
					Addresses: []string{o.Addr()}, Delta: true, KeepaliveTime: tc.keepalive,
					DialOptions: []grpc.DialOption{memory.Option()}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				const keys = 5
				for k := range keys {
					r.join(fmt.Sprint("k", k)).want(cds, "*").waitState(cds, "a")
				}
				time.Sleep(6 * time.Hour) //nolint:forbidigo // virtual time
				if n := o.Counts().Streams; n != keys*tc.streams {
					t.Errorf("%d streams of %d keys, expected %d of each", n, keys, tc.streams)
				}
				lines := slices.DeleteFunc(log.lines(), func(l string) bool { return !strings.Contains(l, "too many keepalive pings") })
				if len(lines) != len(tc.logged) {
					t.Fatalf("logged %q, expected %d lines", lines, len(tc.logged))
				}
				for i, want := range tc.logged {
					if !strings.Contains(lines[i], want) {
						t.Errorf("line %d is %q, expected %q in it", i, lines[i], want)
					}
				}
			})
		})
	}
}
