package hostile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"xdsrelay/bench/content"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// names are attacks by what is asked for, and by how responses are answered.
var names = []attack{
	{name: "100,000 names", run: manyNames},
	{name: "ever new names", run: newNames},
	{name: "types that end the origin's stream", run: strangeTypes},
	{name: "a new type with each request", run: newTypes},
	{name: "new keys", run: newKeys},
	{name: "huge lists of what is held", run: hugeHeld},
	{name: "never an ACK", run: neverACK},
	{name: "a NACK for everything", run: alwaysNACK},
	{name: "NACKs with long reasons", run: longNACKs},
	{name: "nonsense nonces", run: nonces},
}

func some(from, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s/invented-%07d", theKey, from+i)
	}
	return all
}

// manyNames asks for more names than a stream may.
func manyNames(t *testing.T, s *stage) {
	cc := s.dial(t)
	before := s.origin.Stats()
	many := some(0, 20_000) // before a stream is open, which has to ask at once
	for range size(3, 20) {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.EndpointURL, many...))
		c.refused(t, codes.ResourceExhausted, "names", fmt.Sprint(maxNames))
		c = open(t, cc, sotwMethod)
		_ = c.send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theKey), TypeUrl: content.EndpointURL, ResourceNames: many})
		c.refused(t, codes.ResourceExhausted, "names", fmt.Sprint(maxNames))
		// In small pieces.
		c = open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.EndpointURL))
		for i := range 20 {
			if c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNamesSubscribe: some(i*1000, 1000)}) != nil {
				break
			}
		}
		c.refused(t, codes.ResourceExhausted, "names", fmt.Sprint(maxNames))
	}
	if asked := s.origin.Stats().StreamsTotal - before.StreamsTotal; asked > 0 {
		t.Errorf("the origin has seen %d more streams", asked)
	}
}

// newNames subscribes to names that nobody has asked for before, and leaves them.
func newNames(t *testing.T, s *stage) {
	const batch = 500
	c := open(t, s.dial(t), deltaMethod)
	_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
	rounds := size(40, 2000)
	for i := range rounds {
		if err := c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNamesSubscribe: some(i*batch, batch)}); err != nil {
			break
		}
		_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNamesUnsubscribe: some(i*batch, batch)})
	}
	// What the node still wants of the origin is bounded all the time.
	if now := s.footprint(t); now.names > s.before.names+3*maxNames {
		t.Errorf("the node asks the origin for %d names, expected %d at most", now.names, s.before.names+3*maxNames)
	}
	c.close()
}

// strangeTypes asks for types for which the origin, go-control-plane's MuxCache, ends
// the stream of their key: the good clients live on it.
func strangeTypes(t *testing.T, s *stage) {
	// counted is the sum of a metric over its labels.
	counted := func(name string) (sum float64) {
		for _, m := range regexp.MustCompile(`(?m)^`+name+`\{[^}]*\} (\S+)$`).FindAllStringSubmatch(s.get(t, "/metrics"), -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			sum += v
		}
		return sum
	}
	const again = "xdsrelay_upstream_reconnects_total"
	before, changes := counted(again), s.changes.Load()
	cc := s.dial(t)
	var calls []*call
	for i := range 4 {
		typeURL, node := fmt.Sprintf("type.googleapis.com/strange.Type%d", i), xdstest.Node("x", theKey)
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, typeURL, "a"))
		calls = append(calls, c)
		c = open(t, cc, sotwMethod)
		_ = c.send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typeURL, ResourceNames: []string{"a"}})
		calls = append(calls, c)
	}
	xdstest.Eventually(t, "types set apart", func() bool { return counted("xdsrelay_upstream_quarantined_types") >= 4 })
	xdstest.Eventually(t, "changes to reach the good clients", func() bool { return s.changes.Load() >= changes+10 })
	// Once for all, and perhaps for two that were asked for before it was known.
	if n := counted(again) - before; n > 3 {
		t.Errorf("streams to the origin were opened anew %v times", n)
	}
	for _, c := range calls {
		if c.over() {
			t.Errorf("a client was sent away: %v", c.err)
		}
		c.close()
	}
}

// newTypes invents types.
func newTypes(t *testing.T, s *stage) {
	cc := s.dial(t)
	for range size(5, 50) {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", "an invented key", content.ClusterURL))
		for i := range 100 {
			if c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: fmt.Sprintf("type.googleapis.com/invented.Type%d", i), ResourceNamesSubscribe: []string{"a"}}) != nil {
				break
			}
		}
		c.refused(t, codes.ResourceExhausted, "types", "limits.max_types_per_stream")
	}
	// Each stream a few, of the key that good clients have.
	var calls []*call
	var refused int
	for i := range 20 {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
		for j := range 20 {
			_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: fmt.Sprintf("type.googleapis.com/invented.Type%d", i*20+j), ResourceNamesSubscribe: []string{"a"}})
		}
		calls = append(calls, c)
	}
	barrier(t, cc)
	xdstest.Eventually(t, "a refusal", func() bool {
		refused = 0
		for _, c := range calls {
			if c.over() {
				refused++
			}
		}
		return refused > 0
	})
	for _, c := range calls {
		if c.over() {
			refusedWith(t, c.err, codes.ResourceExhausted, "types")
		}
		c.close()
	}
}

// newKeys invents keys, and stays. There are no more than may be, and as many as clients
// that were let in at the same moment (relay/cache.Cache.HasRoom).
func newKeys(t *testing.T, s *stage) {
	const parallel = 20
	var all sync.WaitGroup
	calls := make([][]*call, parallel)
	for p := range parallel {
		cc := s.dial(t)
		for i := range size(300, 10_000) / parallel {
			c := open(t, cc, deltaMethod)
			calls[p] = append(calls[p], c)
			all.Go(func() { _ = c.send(hello("x", fmt.Sprintf("invented-%d-%d", p, i), content.ClusterURL, "*")) })
		}
	}
	all.Wait()
	refused := func() (n int) {
		for _, c := range slices.Concat(calls...) {
			if c.over() {
				n++
			}
		}
		return n
	}
	most := len(slices.Concat(calls...)) - (maxKeys - spec.Keys) - parallel
	xdstest.Eventually(t, fmt.Sprintf("%d refusals", most), func() bool { return refused() >= most })
	for _, c := range slices.Concat(calls...) {
		if c.over() {
			refusedWith(t, c.err, codes.ResourceExhausted, "limit")
		}
		if c.count() > 0 {
			t.Error("an invented key was sent something")
		}
	}
	for _, c := range slices.Concat(calls...) {
		c.close()
	}
}

// hugeHeld says that it holds very much, again and again.
func hugeHeld(t *testing.T, s *stage) {
	cc := s.dial(t)
	held := map[string]string{}
	for _, n := range some(0, 15_000) {
		held[n] = "1"
	}
	var calls []*call
	for range size(10, 100) {
		c := open(t, cc, deltaMethod)
		m := hello("x", theKey, content.ClusterURL, "*")
		m.InitialResourceVersions = held
		_ = c.send(m)
		calls = append(calls, c)
		// Of a type of which nothing is ever known, so that it is never compared.
		c = open(t, cc, deltaMethod)
		m = hello("x", "an invented key", content.ClusterURL, "*")
		m.InitialResourceVersions = held
		_ = c.send(m)
		calls = append(calls, c)
	}
	barrier(t, cc)
	for _, c := range calls {
		c.close()
	}
}

// neverACK opens streams and answers nothing, while everything changes.
func neverACK(t *testing.T, s *stage) {
	cc := s.dial(t)
	var calls []*call
	for i := range size(100, 2000) {
		if i%500 == 499 {
			cc = s.dial(t) // a connection has room for a thousand streams
		}
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
		_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.ListenerURL})
		calls = append(calls, c)
	}
	changes := s.changes.Load()
	xdstest.Eventually(t, "some changes", func() bool { return s.changes.Load() > changes+5 || t.Failed() })
	for _, c := range calls {
		if n := c.count(); n > 2 {
			t.Errorf("%d responses for two types went out without an ACK", n)
			break
		}
		c.onlyOf(t, theKey, true)
		c.close()
	}
}

// alwaysNACK rejects each response at once: it gets no more of them than there are
// changes.
func alwaysNACK(t *testing.T, s *stage) {
	cc := s.dial(t)
	began := s.changes.Load()
	var all sync.WaitGroup
	for range size(20, 200) {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
		all.Go(func() {
			defer c.close()
			for i := 1; s.changes.Load() < began+10 && !t.Failed(); i++ {
				xdstest.Eventually(t, "the next response", func() bool { return c.count() >= i || c.over() || s.changes.Load() >= began+10 || t.Failed() })
				if c.count() < i {
					break
				}
				var r discoveryv3.DeltaDiscoveryResponse
				c.respond(t, i, &r)
				_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.ClusterURL, ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{Code: 3, Message: "no"}})
			}
			if n, changes := c.count(), int(s.changes.Load()-began); n > 2*(changes+3) {
				t.Errorf("%d responses went to a client that rejects all, after %d changes", n, changes)
			}
		})
	}
	all.Wait()
}

// longNACKs rejects with reasons as long as requests may be, some of which look like many
// secrets.
func longNACKs(t *testing.T, s *stage) {
	cc := s.dial(t)
	var reasons []string
	for _, text := range []string{"no! ", "a:", "token=", `\"`, "://", "-----BEGIN A-----", "eyJaaaaa."} {
		reasons = append(reasons, strings.Repeat(text, maxReceive*4/5/len(text)))
	}
	var calls []*call
	for i := range size(20, 200) {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
		var r discoveryv3.DeltaDiscoveryResponse
		c.respond(t, 1, &r)
		for range 3 {
			_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.ClusterURL, ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{Code: 3, Message: reasons[i%len(reasons)]}})
		}
		calls = append(calls, c)
	}
	s.keepsLittle(t, len(calls))
	for _, c := range calls {
		if c.over() { // where too much came at once on the connection
			refusedWith(t, c.err, codes.ResourceExhausted, "ENHANCE_YOUR_CALM")
		}
		c.close()
	}
}

// nonces answers what was never sent.
func nonces(t *testing.T, s *stage) {
	cc := s.dial(t)
	for _, method := range []string{deltaMethod, sotwMethod} {
		c := open(t, cc, method)
		delta := method == deltaMethod
		if delta {
			_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
		} else {
			_ = c.send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theKey), TypeUrl: content.ClusterURL})
		}
		xdstest.Eventually(t, "the first response", func() bool { return c.count() == 1 || c.over() })
		began := time.Now()
		for i := range size(500, 8_000) { // more than may come at once
			nonce := []string{"", "0", "-1", "18446744073709551616", "1\x00", strings.Repeat("9", 1000), "eins", fmt.Sprint(i + 2)}[i%8]
			if delta {
				_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.ClusterURL, ResponseNonce: nonce})
			} else if nonce != "" {
				_ = c.send(&discoveryv3.DiscoveryRequest{TypeUrl: content.ClusterURL, ResponseNonce: nonce, VersionInfo: nonce})
			}
		}
		barrier(t, cc)
		// Without an ACK there is one more now and then.
		if most := 2 + int(time.Since(began)/config.Default().Downstream.AckTimeout); c.over() || c.count() > most {
			t.Errorf("after nonsense nonces: %d responses, expected %d at most; ended %v", c.count(), most, c.over())
		}
		c.close()
	}
}
