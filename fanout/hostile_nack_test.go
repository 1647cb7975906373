package fanout

import (
	"strings"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"xdsrelay/relay/xdstest"
)

// TestHostileNACKs: K19: the reason of a NACK may look like a great many secrets, and costs
// about as much as any other of its length, while the other streams get their changes. That
// it is searched with no lock held is held by a test of the sources in package relay.
func TestHostileNACKs(t *testing.T) {
	const size = 64 << 10
	c := newCrowd(t, 5)
	cost := func(unit string) time.Duration {
		before := cpuTime(t)
		for range 2 {
			s := c.open(false)
			s.Subscribe(cds, "a")
			f := has(t, s.Recv(t), "a")
			s.Send(&discoveryv3.DiscoveryRequest{
				TypeUrl: cds, ResourceNames: []string{"a"}, ResponseNonce: f.Nonce,
				ErrorDetail: &status.Status{Code: 3, Message: strings.Repeat(unit, size/len(unit))},
			})
			c.publish()
			c.expect("after a NACK", len(c.streams))
			s.Ack(has(t, s.Recv(t), "a")) // it has been judged
			s.Cancel()
			xdstest.Eventually(t, "the stream to end", func() bool { return len(c.srv.Streams()) == len(c.streams) })
		}
		return cpuTime(t) - before
	}
	cost("no! ") // the first is slower
	plain := cost("no! ")
	for _, unit := range []string{"a:", "token=", `\"`, "://", "eyJaaaaa.", "-----BEGIN A-----", "QUJD", "="} {
		if took := cost(unit); took > 20*plain+time.Second {
			t.Errorf("two NACKs that repeat %q take %v, and others %v", unit, took, plain)
		}
	}
}

// cpuTime is what this process has used of processors.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
