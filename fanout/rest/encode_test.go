package rest

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/xdstest"
)

// TestAnswer: an answer is a DiscoveryResponse in proto3 JSON, with the content of each Any spelled
// out, and names the server (H2, K7).
func TestAnswer(t *testing.T) {
	w := newWorld(t)
	m := xdstest.Listener("l", "0.0.0.0:80", "routes")
	w.known("/v3/discovery:listeners", m)
	res := w.post("/v3/discovery:listeners", ask(""))
	got := w.message(res)
	if !proto.Equal(got.Resources[0], xdstest.Any(m)) {
		t.Errorf("%s is not %s", res.body, protojson.Format(m))
	}
	if id := got.GetControlPlane().GetIdentifier(); id != "relay-1 <- cp-1" {
		t.Errorf("the identifier is %q", id)
	}
	for _, want := range []string{`"versionInfo"`, `"typeUrl"`, "envoy.extensions.filters.http.router.v3.Router"} {
		if !strings.Contains(string(res.body), want) {
			t.Errorf("%s lacks %s", res.body, want)
		}
	}
}

// unknownAny holds a message of an unknown type.
var unknownAny = &anypb.Any{TypeUrl: "type.googleapis.com/x.Unheard", Value: []byte("\x0a\x01x")}

// withFilter is a cluster with an extension.
func withFilter(name string, config *anypb.Any) *clusterv3.Cluster {
	c := xdstest.Cluster(name, 1)
	c.Filters = []*clusterv3.Filter{{Name: "f", TypedConfig: config}}
	return c
}

// newer is a message with a field that this program does not know.
func newer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 4242, protowire.VarintType), 1))
	return m
}

// TestWhatJSONCannotHold: an answer that would lack something fails and says what it would lack;
// polls for other names are unaffected (D2).
func TestWhatJSONCannotHold(t *testing.T) {
	nested := xdstest.Any(wrapperspb.Bool(true))
	for range maxNesting {
		nested = xdstest.Any(nested)
	}
	inAMap := xdstest.Cluster("bad", 1)
	inAMap.TypedExtensionProtocolOptions = map[string]*anypb.Any{"x": unknownAny}
	for name, tc := range map[string]struct {
		bad   *clusterv3.Cluster
		wants []string
	}{
		"a type":              {withFilter("bad", unknownAny), []string{"x.Unheard", "does not know"}},
		"a type, deeper":      {withFilter("bad", xdstest.Any(unknownAny)), []string{"x.Unheard"}},
		"a type in a map":     {inAMap, []string{"x.Unheard"}},
		"a field":             {newer(xdstest.Cluster("bad", 1)), []string{"envoy.config.cluster.v3.Cluster", "4242"}},
		"a field in an Any":   {withFilter("bad", xdstest.Any(newer(wrapperspb.Bool(true)))), []string{"google.protobuf.BoolValue", "4242"}},
		"a broken message":    {withFilter("bad", &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.BoolValue", Value: []byte("\xff")}), []string{"BoolValue", "cannot be decoded"}},
		"an Any without type": {withFilter("bad", &anypb.Any{Value: []byte("x")}), []string{`type \"\"`}},
		"messages too deep":   {withFilter("bad", nested), []string{"50 levels of nested messages"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			w := newWorld(t, hold(-1), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			w.known(clusters, cluster("good", 1), tc.bad)
			for range 3 {
				w.fails(w.post(clusters, ask("")), http.StatusInternalServerError, append(tc.wants, `\"bad\"`, `"code":13`)...)
			}
			w.fails(w.post(clusters, ask("old")), http.StatusInternalServerError) // not 304, which would hide it
			w.has(w.post(clusters, ask("", "good")), "good")
			w.change(cds, nil, cluster("bad", 2))
			w.has(w.post(clusters, ask("")), "bad", "good")
			w.srv.Close()
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
				t.Errorf("logged %d times: %s", n, log.String())
			}
		})
	}
}

// TestNothingIsLeftOut: everything that JSON can represent is written, wherever a message can
// occur.
func TestNothingIsLeftOut(t *testing.T) {
	w := newWorld(t, hold(-1))
	m := withFilter("a", xdstest.Any(xdstest.Any(wrapperspb.Bool(true))))
	m.TypedExtensionProtocolOptions = map[string]*anypb.Any{"x": xdstest.Any(xdstest.Route("r", "c")), "empty": {}}
	w.known(clusters, m)
	if got := w.message(w.post(clusters, ask(""))).Resources[0]; !proto.Equal(unpack(t, got), m) {
		t.Errorf("got %s", protojson.Format(got))
	}
}

func unpack(t *testing.T, a *anypb.Any) proto.Message {
	t.Helper()
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEveryTypeCanBeWritten: the program knows the messages of all paths.
func TestEveryTypeCanBeWritten(t *testing.T) {
	s := newSilentWorld(t, func(c *Config) { c.V2 = true }).srv
	for path, typ := range s.types {
		if err := (writer{s.messages(typ)}).checkAny(typ.URL, nil, 0); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestEncodedOnce: content that clients of one key share is encoded once, for any clients at any
// time, even if they ask for it by different names.
func TestEncodedOnce(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1), cluster("b", 1))
	built := func() uint64 { return w.srv.answers.Built() }
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { w.has(w.post(clusters, ask("")), "a", "b") })
	}
	all.Wait()
	version := w.has(w.post(clusters, ask("", "b", "a")), "a", "b")
	if built() != 1 {
		t.Errorf("%d answers were built for one content", built())
	}
	var done []<-chan *reply
	for range 50 {
		done = append(done, w.background(clusters, ask(version)))
	}
	w.watched(50)
	w.serve("v2", cds, cluster("a", 2), cluster("b", 1))
	for _, d := range done {
		w.has(w.arrives(d), "a", "b")
	}
	w.has(w.post(clusters, ask("", "b")), "b")
	if built() != 3 {
		t.Errorf("%d answers were built for three contents", built())
	}
}
