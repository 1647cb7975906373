package hostile

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// little and least are the memory of containers that small attacks come near the limit of.
const little, least = 256 << 20, 128 << 20

// defaults are attacks on the shipped limits: each one is of a kind that one client, or
// a crowd behind one address, can do to a node of 1 GiB.
var defaults = []attack{
	{name: "NACKs that are hard to redact", run: hardNACKs},
	{name: "requests with very many entries", run: manyEntries},
	{name: "names that the origin cannot take", run: namesTooLong},
	{name: "names before a restart of the origin", run: namesAndRestart},
	{name: "client status of clients with large metadata", run: fatStatus},
	{name: "half requests to the metrics port", run: metricsFlood},
	{name: "names that come and go", run: nameChurn, linger: 2 * time.Second},
	{name: "clients that are idle", run: idleClients},
	{name: "a crowd that gets small changes", run: crowd, memory: little, linger: time.Second},
	{name: "load reports near the memory limit", run: loadsNearTheLimit, memory: little, linger: time.Second},
	{name: "idle connections near the memory limit", run: idleNearTheLimit, memory: least, linger: time.Second},
	// The last one, since no other attack from this address gets a key of its own after it.
	{name: "as many keys as one address may have", run: keysOfOneAddress},
}

// hard are texts that a search for secrets finds hard, each repeated to fill a text.
var hard = []string{"a:a:", "a=", "password=", `a:"`, "bearer ", "a.a.", "x://", "-----BEGIN ", "eyJ", `\"`, "a: \"a\\", "gh"}

// hardNACKs rejects with reasons of 64 KiB, on streams of its own.
func hardNACKs(t *testing.T, s *stage) {
	const each = 64 << 10
	cc := s.dial(t)
	var last []*call
	tick := time.NewTicker(time.Second / 30)
	defer tick.Stop()
	for i := range size(60, 600) {
		<-tick.C
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
		var r discoveryv3.DeltaDiscoveryResponse
		c.respond(t, 1, &r)
		pattern := hard[i%len(hard)]
		_ = c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.ClusterURL, ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{
			Code: 3, Message: strings.Repeat(pattern, each/len(pattern)),
		}})
		last = append(last, c)
	}
	barrier(t, cc)
	for _, c := range last {
		c.close()
	}
}

// fields are those of requests that hold many entries or a long text, with the method
// of the request, their number, and an entry.
var fields = []struct {
	name   string
	method string
	number protowire.Number
	entry  func(i int) []byte
}{
	{"initial_resource_versions", deltaMethod, fieldNumber(&discoveryv3.DeltaDiscoveryRequest{}, "initial_resource_versions"), func(i int) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprint(i))
	}},
	{"resource_names_subscribe", deltaMethod, fieldNumber(&discoveryv3.DeltaDiscoveryRequest{}, "resource_names_subscribe"), nothing},
	{"resource_names_unsubscribe", deltaMethod, fieldNumber(&discoveryv3.DeltaDiscoveryRequest{}, "resource_names_unsubscribe"), nothing},
	{"resource_locators_subscribe", deltaMethod, fieldNumber(&discoveryv3.DeltaDiscoveryRequest{}, "resource_locators_subscribe"), nothing},
	{"resource_locators_unsubscribe", deltaMethod, fieldNumber(&discoveryv3.DeltaDiscoveryRequest{}, "resource_locators_unsubscribe"), parameters},
	{"resource_names", sotwMethod, fieldNumber(&discoveryv3.DiscoveryRequest{}, "resource_names"), nothing},
	{"resource_locators", sotwMethod, fieldNumber(&discoveryv3.DiscoveryRequest{}, "resource_locators"), parameters},
	{"error_detail", sotwMethod, fieldNumber(&discoveryv3.DiscoveryRequest{}, "error_detail"), func(int) []byte { return []byte{3 << 3, 0} }},
}

func nothing(int) []byte { return nil }

// parameters is a locator with many dynamic parameters.
func parameters(i int) (entry []byte) {
	for j := range 100 {
		pair := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprint(i*100+j))
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), pair)
	}
	return entry
}

// manyEntries sends requests of 20 MiB and more, each of many entries of one field, and
// one with a type URL of that length.
func manyEntries(t *testing.T, s *stage) {
	large := size(20<<20, 60<<20)
	try := func(method string, body []byte) {
		c := open(t, s.dial(t), method)
		_ = c.send(body)
		_ = c.CloseSend() // the node looks at requests in turn: it has looked at all when it ends the stream
		xdstest.Eventually(t, "the end of a large request", func() bool { return c.over() || s.dead() })
		c.close()
	}
	for _, f := range fields {
		if s.dead() {
			return
		}
		body := encode(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theKey)}) // the same field in both variants
		body = append(body, typed(f.method)...)
		for i := 0; len(body) < large; i++ {
			body = protowire.AppendBytes(protowire.AppendTag(body, f.number, protowire.BytesType), f.entry(i))
		}
		try(f.method, body)
	}
	try(sotwMethod, encode(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theKey), TypeUrl: "type.googleapis.com/" + strings.Repeat("t", large)}))
}

// typed is the type URL of endpoints as a request of the method has it: those are not
// asked for by wildcard, so that an answer means that the names have been looked at.
func typed(method string) []byte {
	if method == deltaMethod {
		return encode(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL})
	}
	return encode(&discoveryv3.DiscoveryRequest{TypeUrl: content.EndpointURL})
}

// askFor subscribes to names that there are not, in requests of so many bytes of names, and
// waits until the node has them all or has ended the stream.
func askFor(t *testing.T, s *stage, requests, bytes int) *call {
	t.Helper()
	const length = 400
	c := open(t, s.dial(t), deltaMethod)
	_ = c.send(hello("x", theKey, content.EndpointURL))
	count := 0
	for range requests {
		var names []string
		for range bytes / length {
			names = append(names, fmt.Sprintf("%d-%0*d", requests, length, count)) // others than those of another attack, which linger
			count++
		}
		if c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNamesSubscribe: names}) != nil {
			break
		}
	}
	xdstest.Eventually(t, "the names to be known or refused", func() bool {
		return c.over() || s.dead() || s.footprint(t).names >= s.before.names+count
	})
	return c
}

// namesTooLong asks for more names than a control plane with gRPC's default limit of
// 4 MiB takes in one request, of a key that good clients have, too.
func namesTooLong(t *testing.T, s *stage) {
	c := askFor(t, s, 1, 4_600_000)
	changes := s.changes.Load()
	xdstest.Eventually(t, "changes to reach the good clients", func() bool { return s.changes.Load() >= changes+10 || s.dead() || t.Failed() })
	c.close()
}

// namesAndRestart asks for six times 888 KiB of names and waits until the origin
// restarts, after which all of them are asked for again.
func namesAndRestart(t *testing.T, s *stage) {
	c := askFor(t, s, 6, 888<<10)
	changes := s.changes.Load()
	xdstest.Eventually(t, "a change to reach the good clients", func() bool { return s.changes.Load() > changes+1 || s.dead() })
	if err := s.origin.Down(); err != nil {
		t.Fatal(err)
	}
	if err := s.origin.Up(); err != nil {
		t.Fatal(err)
	}
	changes = s.changes.Load()
	xdstest.Eventually(t, "changes after the restart to reach the good clients", func() bool { return s.changes.Load() >= changes+2 || s.dead() })
	s.forget() // changes during the outage were late for everybody
	xdstest.Eventually(t, "more changes to reach the good clients", func() bool { return s.changes.Load() >= changes+10 || s.dead() })
	c.close()
}

// nameChurn asks for ever new names and leaves them at once, but for the last ones, which
// it has when it ends: in a key of its own, which then is idle, and in the key of good
// clients.
func nameChurn(t *testing.T, s *stage) {
	const length, batch, kept = 1000, 1000, 15
	const lingering = 32 << 20 // of one key, in bytes; see docs/reference/limits.md
	rounds := size(45, 500)
	churn := func(key string) {
		c := open(t, s.dial(t), deltaMethod)
		_ = c.send(hello("x", key, content.EndpointURL))
		for i := range rounds {
			var names []string
			for j := range batch {
				names = append(names, fmt.Sprintf("%s-%0*d", key, length, i*batch+j))
			}
			if c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNamesSubscribe: names}) != nil ||
				i < rounds-kept && c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNamesUnsubscribe: names}) != nil {
				break
			}
		}
		_ = c.send([]byte{0xff}) // requests are read in turn, and this one ends the stream
		xdstest.Eventually(t, "the end of the stream", func() bool { return c.over() || s.dead() })
		c.close()
	}
	churn("churned")
	select {
	case <-time.After(s.config().Cache.Linger):
	case <-s.process.ended:
		return
	}
	xdstest.Eventually(t, "the key to be idle", func() bool { return s.dead() || s.idle(t, "churned") })
	idle := s.live(t)
	churn(theKey)
	served := s.live(t)
	// An idle key keeps no names: those that the client had at its end are
	// kept × batch × (length + cache.NameCost), 20 MiB.
	idle.grown(t, "an idle key that had names", s.before, 0)
	// In a key that others have they linger within their bound.
	served.grown(t, "names of a key that others have", idle, lingering)
}

// idle reports whether a key is.
func (s *stage) idle(t *testing.T, key string) bool {
	t.Helper()
	var keys []struct {
		Key  string
		Idle bool
	}
	s.ask(t, "/debug/keys?format=json", &keys)
	return slices.ContainsFunc(keys, func(k struct {
		Key  string
		Idle bool
	}) bool {
		return k.Key == key && k.Idle
	})
}

// keysOfOneAddress invents keys until it is refused one. What the default limit lets one
// address have must fit into the memory.
func keysOfOneAddress(t *testing.T, s *stage) {
	const parallel = 8
	most := size(800, 10_000)
	calls := make([][]*call, parallel)
	var all sync.WaitGroup
	for p := range parallel {
		cc := s.dial(t)
		for i := range most / parallel {
			if i%500 == 499 {
				cc = s.dial(t)
			}
			c := open(t, cc, deltaMethod)
			calls[p] = append(calls[p], c)
			all.Go(func() { _ = c.send(hello("x", fmt.Sprintf("invented-%d-%d", p, i), content.ClusterURL, "*")) })
		}
	}
	all.Wait()
	over := func() (n int) {
		for _, c := range slices.Concat(calls...) {
			if c.over() {
				n++
			}
		}
		return n
	}
	var now footprint
	xdstest.Eventually(t, "all keys to be there or refused", func() bool {
		now = s.footprint(t)
		return now.keys-s.before.keys+over() >= most/parallel*parallel || s.dead()
	})
	if s.dead() {
		return
	}
	keys := now.keys - s.before.keys
	each := max(now.rss-s.before.rss, 0) / int64(max(keys, 1))
	allowed := int64(s.config().Limits.MaxKeysPerIdentity)
	t.Logf("%d keys of %d KiB each, %d refused; %d are allowed", keys, each>>10, over(), allowed)
	if total := each * allowed; total > s.goMemory()/2 {
		t.Errorf("a key takes %d KiB, so that the %d keys that one address may have take %d MiB, expected at most half of the %d MiB that a node may use",
			each>>10, allowed, total>>20, s.goMemory()>>20)
	}
	for _, c := range slices.Concat(calls...) {
		c.close()
	}
}

// metricsFlood opens very many connections to the port that shows metrics, and sends
// half a request on each.
func metricsFlood(t *testing.T, s *stage) {
	var all []net.Conn
	for range size(1500, 4000) {
		c, err := net.DialTimeout("tcp", s.Metrics, 5*time.Second)
		if err != nil {
			break // no more are taken
		}
		_, _ = fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Fill: %s", strings.Repeat("x", 3000))
		all = append(all, c)
	}
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	// A goroutine for each connection is what the limit is for.
	now := s.footprint(t)
	if more := now.goroutines - s.before.goroutines; more > len(all)/2 {
		t.Errorf("%d connections to the metrics port have %d goroutines, expected a limit on them", len(all), more)
	}
}
