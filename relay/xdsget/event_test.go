package xdsget_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdsclient"
	"xdsrelay/relay/xdsget"
	"xdsrelay/relay/xdstest"
)

// notes are events as lines.
type notes struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (n *notes) add(e xdsget.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.Opened:
		n.all = append(n.all, "opened")
	case e.Err != nil:
		n.all = append(n.all, e.Err.Error())
	default:
		u := e.Update
		line := xdsclient.ShortType(u.TypeURL)
		if u.Rejected != "" {
			line += " rejected: " + u.Rejected
		}
		for _, of := range []struct {
			sign  string
			items []xdsget.Item
		}{{"+", u.Added}, {"~", u.Changed}, {"-", u.Removed}, {"?", u.Absent}} {
			for _, i := range of.items {
				line += " " + of.sign + i.Name
			}
		}
		n.all = append(n.all, line)
	}
}

func (n *notes) lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// TestEvents: each update is reported with what it changed, and the end of a stream with its cause;
// the client connects again.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := xdstest.NewMemory()
		o := m.NewStateOrigin(t, nil)
		o.Set("", xdstest.Cluster("a", time.Second), xdstest.Cluster("b", time.Second), xdstest.Endpoints("a", "127.0.0.1:1"))
		var log notes
		s := start(t, xdsget.Config{
			Addr: o.Addr(), Delta: true, Node: &corev3.Node{Id: "n"}, Want: []xdsget.Ref{{TypeURL: xdsclient.ClusterType, Name: "*"}}, References: true,
			DialOptions: []grpc.DialOption{m.Option()}, Notify: log.add,
		})
		moment := func() {
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			synctest.Wait()
		}
		moment()
		o.Update("", func(c *xdstest.Change) {
			c.Set(xdstest.Cluster("a", 2*time.Second))
			c.Remove(xdsclient.ClusterType, "b")
		})
		moment()
		o.Stop()
		moment()
		if err := s.Err(); err == nil || err.Error() != "cannot connect to "+o.Addr()+": connection refused" {
			t.Errorf("the error is %v", err)
		}
		if err := o.Start(); err != nil {
			t.Fatal(err)
		}
		moment()
		got := log.lines()
		want := []string{"opened", "Cluster +a +b", "ClusterLoadAssignment +a ?b", "Cluster ~a -b"}
		if len(got) < 6 || !slices.Equal(got[:4], want) || !strings.Contains(got[4], "the stream") || !slices.Contains(got[5:], "opened") {
			t.Errorf("the events are\n%q, expected to begin with\n%q", got, want)
		}
		if err := s.Err(); err != nil {
			t.Errorf("connected again, and the error is %v", err)
		}
	})
}

// TestFinal: an error that another attempt would have, too, ends the wait at once; others do not.
func TestFinal(t *testing.T) {
	for code, final := range map[codes.Code]bool{
		codes.PermissionDenied: true, codes.Unauthenticated: true, codes.InvalidArgument: true, codes.Unimplemented: true,
		codes.Unavailable: false, codes.ResourceExhausted: false,
	} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := xdstest.NewMemory()
				l, err := m.Listen("127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				g := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(code, "no, Bearer abcdefgh12345678") }))
				go func() { _ = g.Serve(l) }()
				defer g.Stop()
				s := start(t, xdsget.Config{
					Addr: l.Addr().String(), Node: &corev3.Node{Id: "n"}, Want: xdsget.EnvoyRefs(), DialOptions: []grpc.DialOption{m.Option()},
				})
				err = wait(t, s, 5*time.Second)
				e, isFinal := errors.AsType[*xdsget.Error](err)
				if isFinal != final || !final && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				if final && (!e.Final || !strings.HasSuffix(e.Text, ": no, Bearer [redacted]")) {
					t.Errorf("the error is %+v", e)
				}
				s.Close()
			})
		})
	}
}
