package xdsclient_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is that of a client of a server.
func config(addr string, v xdsclient.Variant) xdsclient.Config {
	return xdsclient.Config{Addr: addr, Variant: v, Node: &corev3.Node{Id: "n"}}
}

// start starts a client that ends with the test.
func start(t *testing.T, cfg xdsclient.Config) *xdsclient.Client {
	t.Helper()
	c, err := xdsclient.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// await waits until cond holds.
func await(t *testing.T, c *xdsclient.Client, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	for {
		changed := c.Changed()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", c)
		}
	}
}

// notes are lines in the order in which they were added.
type notes struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (n *notes) addf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, args...))
}

func (n *notes) lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// TestBadConfig: a configuration that cannot work is an error of Start.
func TestBadConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*xdsclient.Config)
		want  string
	}{
		"no such service":  {func(c *xdsclient.Config) { c.Variant.Service = "type.googleapis.com/none" }, "no service has the variant sotw-com/none"},
		"no SotW service":  {func(c *xdsclient.Config) { c.Variant.Service = xdsclient.VirtualHostType }, "no service has the variant sotw-VirtualHost"},
		"no node":          {func(c *xdsclient.Config) { c.Node = nil }, "needs a node"},
		"no server":        {func(c *xdsclient.Config) { c.Addr = "" }, "needs the address of a server"},
		"negative backoff": {func(c *xdsclient.Config) { c.Backoff = -1 }, "a backoff of -1ns is negative"},
		"negative longest": {func(c *xdsclient.Config) { c.LongestBackoff = -1 }, "a longest backoff of -1ns is negative"},
		"bad options":      {func(c *xdsclient.Config) { c.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(nil)} }, "transport security"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config("127.0.0.1:1", xdsclient.SotW)
			tc.spoil(&cfg)
			c, err := xdsclient.Start(cfg)
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, expected %q", err, tc.want)
			}
		})
	}
}

// TestHooks: the functions of a configuration are called in order, and may subscribe to
// what a response leads to.
func TestHooks(t *testing.T) {
	for _, v := range []xdsclient.Variant{xdsclient.SotW, xdsclient.Delta} {
		t.Run(v.String(), func(t *testing.T) {
			o := xdstest.NewStateOrigin(t, nil)
			o.Set("", xdstest.Synthetic(xdsclient.ClusterType, "a", 1), xdstest.Synthetic(xdsclient.EndpointType, "e", 1))
			var (
				calls notes
				c     *xdsclient.Client
				known sync.Mutex // held until c is known
			)
			known.Lock()
			cfg := config(o.Addr(), v)
			cfg.Watch = func(e xdsclient.Event) {
				switch {
				case e.Frame != nil:
					calls.addf("frame %s", xdsclient.ShortType(e.Frame.TypeURL))
				case e.Ended:
					calls.addf("ended, own %t", e.Own)
				default:
					calls.addf("opened at the server %t", e.Addr == o.Addr())
				}
			}
			cfg.Nack = func(*xdsclient.Frame) string { calls.addf("nack?"); return "" }
			cfg.Reject = func(_ string, r xdsclient.Resource) string { calls.addf("reject %s?", r.Name); return "" }
			cfg.BeforeRead = func(context.Context) {
				known.Lock()
				defer known.Unlock()
				s := c.Stats()
				calls.addf("read after %d answers", s.Acks+s.Nacks)
			}
			cfg.BeforeAck = func(_ context.Context, f *xdsclient.Frame) {
				calls.addf("holds %d", len(c.Held(f.TypeURL)))
				if f.TypeURL == xdsclient.ClusterType {
					c.Subscribe(xdsclient.EndpointType, "e")
				}
			}
			c = start(t, cfg)
			c.Subscribe(xdsclient.ClusterType)
			known.Unlock()
			await(t, c, func() bool { return c.Stats().Acks == 2 })
			c.Close()
			want := []string{
				"opened at the server true", "read after 0 answers",
				"frame Cluster", "nack?", "reject a?", "holds 1", "read after 1 answers",
				"frame ClusterLoadAssignment", "nack?", "reject e?", "holds 1", "read after 2 answers",
				"ended, own true",
			}
			if got := calls.lines(); !slices.Equal(got, want) {
				t.Errorf("calls were\n%q, expected\n%q", got, want)
			}
			if v := c.Violations(); len(v) > 0 {
				t.Errorf("violations: %q", v)
			}
			if want := map[string][]string{xdsclient.ClusterType: {"*"}, xdsclient.EndpointType: {"e"}}; !maps.EqualFunc(c.Wanted(), want, slices.Equal) {
				t.Errorf("wanted: %v", c.Wanted())
			}
		})
	}
}

// TestReject: a frame with a resource that is rejected is no success, but the rest of it
// is used, and what was held stays.
func TestReject(t *testing.T) {
	for _, v := range []xdsclient.Variant{xdsclient.SotW, xdsclient.Delta} {
		t.Run(v.String(), func(t *testing.T) {
			o := xdstest.NewStateOrigin(t, nil)
			o.Set("", xdstest.Synthetic(xdsclient.ClusterType, "a", 1), xdstest.Synthetic(xdsclient.ClusterType, "b", 1))
			cfg := config(o.Addr(), v)
			good := []string{string(xdstest.Any(xdstest.Synthetic(xdsclient.ClusterType, "a", 1)).GetValue())}
			cfg.Reject = func(_ string, r xdsclient.Resource) string {
				if r.Name == "a" && !slices.Contains(good, string(r.Body.GetValue())) {
					return "not this a"
				}
				return ""
			}
			c := start(t, cfg)
			c.Subscribe(xdsclient.ClusterType)
			await(t, c, func() bool { return c.Stats().Acks == 1 })
			before, version := c.Held(xdsclient.ClusterType), c.Version(xdsclient.ClusterType)
			if len(before) != 2 || version == "" {
				t.Fatalf("holds %v of version %q", before, version)
			}
			o.Set("", xdstest.Synthetic(xdsclient.ClusterType, "a", 2), xdstest.Synthetic(xdsclient.ClusterType, "b", 2))
			await(t, c, func() bool { return c.Stats().Nacks > 0 })
			await(t, c, func() bool {
				return string(c.Held(xdsclient.ClusterType)["b"].Body) != string(before["b"].Body)
			})
			if now := c.Held(xdsclient.ClusterType)["a"]; string(now.Body) != string(before["a"].Body) || c.Version(xdsclient.ClusterType) != version {
				t.Errorf("holds %v of version %q", now, c.Version(xdsclient.ClusterType))
			}
		})
	}
}

// TestNackNamesAll: a NACK names the resources that were rejected, the first ten of many.
func TestNackNamesAll(t *testing.T) {
	for many, want := range map[int]string{
		3:  "c0: no 0; c1: no 1; c2: no 2",
		12: "c0: no 0; c1: no 1; c2: no 2; c3: no 3; c4: no 4; c5: no 5; c6: no 6; c7: no 7; c8: no 8; c9: no 9; and 2 more",
	} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			o := xdstest.NewOrigin(t)
			cfg := config(o.Addr(), xdsclient.Delta)
			cfg.Reject = func(_ string, r xdsclient.Resource) string { return "no " + r.Name[1:] }
			c := start(t, cfg)
			c.Subscribe(xdsclient.ClusterType)
			s := o.NextStream(t)
			s.NextRequest(t)
			var resources []proto.Message
			for i := range many {
				resources = append(resources, xdstest.Synthetic(xdsclient.ClusterType, fmt.Sprintf("c%d", i), 1))
			}
			s.Respond(t, xdsclient.ClusterType, "1", resources...)
			if got := s.NextRequest(t).Error.GetMessage(); got != want {
				t.Errorf("the NACK says %q, expected %q", got, want)
			}
		})
	}
}

// TestBackoff: attempts in vain are made further and further apart, and not by all clients at the
// same moments; not if the configuration says how long each wait is.
func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		name           string
		first, longest int   // in ms
		want           []int // in ms
		scatter        float64
	}{
		{"the defaults", 0, 0, []int{1000, 1600, 2560, 4096, 6553, 10485, 16777, 26843, 30000, 30000}, 0.2},
		{"configured", 100, 300, []int{100, 160, 256, 300, 300}, 0.2},
		{"always the same", 700, 700, []int{700, 700, 700}, 0},
		{"only the longest", 0, 500, []int{500, 500, 500}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config("", xdsclient.SotW)
				cfg.Backoff, cfg.LongestBackoff = time.Duration(tc.first)*time.Millisecond, time.Duration(tc.longest)*time.Millisecond
				cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
					return nil, errors.New("out of reach")
				})}
				tried := make(chan time.Time)
				cfg.Next = func() string { tried <- time.Now(); return "server" }
				c, err := xdsclient.Start(cfg)
				if err != nil {
					t.Fatal(err)
				}
				last := <-tried
				for i, want := range tc.want {
					now := <-tried
					got, want := now.Sub(last), time.Duration(want)*time.Millisecond
					if low, high := float64(want)*(1-tc.scatter), float64(want)*(1+tc.scatter); float64(got) < low-1e6 || float64(got) > high+1e6 {
						t.Errorf("wait %d was %s, expected %s", i, got, want)
					}
					last = now
				}
				go func() {
					for range tried { // an attempt that is being made while the client is closed
					}
				}()
				c.Close()
				close(tried)
			})
		})
	}
}

// TestNext: a client whose servers are chosen for it fails at one that is out of reach,
// and goes on to the next.
func TestNext(t *testing.T) {
	o := xdstest.NewStateOrigin(t, nil)
	gone := xdstest.NewStateOrigin(t, nil)
	gone.Stop()
	cfg := config("", xdsclient.Delta)
	cfg.Backoff, cfg.LongestBackoff = 1, 1
	asked := 0
	cfg.Next = func() string {
		asked++
		return []string{o.Addr(), gone.Addr()}[asked%2]
	}
	var lines notes
	cfg.Log = lines.addf
	c := start(t, cfg)
	c.Subscribe(xdsclient.ClusterType, "a")
	await(t, c, c.Connected)
	if c.Stats().LastEnd == nil {
		t.Errorf("no attempt failed: %s", c)
	}
	await(t, c, func() bool { return c.Stats().Acks > 0 })
	c.Close()
	c.Close()
	text := strings.Join(lines.lines(), "\n")
	for _, want := range []string{
		"stream ended: rpc error: code = Unavailable", "stream opened to " + o.Addr(), `-> Cluster subscribe=[a] nonce="" node="n"`, "<- Cluster", "stream ended: rpc error: code = Canceled",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
}

// TestOutOfReach: a client of a server that is out of reach waits for it, and can be
// closed.
func TestOutOfReach(t *testing.T) {
	gone := xdstest.NewStateOrigin(t, nil)
	gone.Stop()
	c := start(t, config(gone.Addr(), xdsclient.SotW))
	c.Subscribe(xdsclient.ClusterType)
	if c.Connected() || c.Version(xdsclient.ClusterType) != "" || len(c.Held(xdsclient.ClusterType)) != 0 {
		t.Errorf("the client is %s", c)
	}
	c.Close()
}
