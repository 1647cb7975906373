package xdsget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"xdsrelay/relay/xdsclient"
	"xdsrelay/relay/xdsget"
	"xdsrelay/relay/xdstest"
)

// pairOf starts two servers with contents and a session with each.
func pairOf(t *testing.T, cfg xdsget.Config, here, there []proto.Message) (a, b *xdstest.StateOrigin, first, second *xdsget.Session) {
	t.Helper()
	m := xdstest.NewMemory()
	a, b = m.NewStateOrigin(t, nil), m.NewStateOrigin(t, nil)
	a.Set("", here...)
	b.Set("", there...)
	cfg.Node, cfg.DialOptions = &corev3.Node{Id: "n"}, []grpc.DialOption{m.Option()}
	if cfg.Want == nil {
		cfg.Want, cfg.References = xdsget.EnvoyRefs(), true
	}
	cfg.Addr = a.Addr()
	first = start(t, cfg)
	cfg.Addr = b.Addr()
	return a, b, first, start(t, cfg)
}

func compare(t *testing.T, first, second *xdsget.Session) *xdsget.Comparison {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return xdsget.Compare(ctx, first, second)
}

// TestCompare: what only one of two servers has, and what differs, is found by type, name and field;
// secrets are not shown.
func TestCompare(t *testing.T) {
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprint("delta ", delta), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				there := []proto.Message{
					xdstest.Cluster("a", 2*time.Second), xdstest.Cluster("new", time.Second), xdstest.Endpoints("a", "127.0.0.1:1"), xdstest.Endpoints("new", "127.0.0.1:1"),
					secured(xdstest.Listener("l", "127.0.0.1:80", "r"), "cert"), xdstest.Route("r", "a"), xdstest.Secret("cert", "chain", "OTHERSECRET"),
				}
				_, _, first, second := pairOf(t, xdsget.Config{Delta: delta}, content(), there)
				c := compare(t, first, second)
				var got []string
				for _, d := range c.Differences {
					line := fmt.Sprintf("%s %s/%s", d.Where, xdsclient.ShortType(d.URL), d.Name)
					for _, f := range d.Fields {
						line += fmt.Sprintf(" %s %s %s %s", f.Change, f.Path, f.Old, f.New)
					}
					got = append(got, strings.TrimSpace(line))
				}
				want := []string{
					`differs Cluster/a changed connectTimeout "1s" "2s"`, "only_here Cluster/b", "only_there Cluster/new",
					"only_here ClusterLoadAssignment/b-eds", "only_there ClusterLoadAssignment/new", "differs Secret/cert hidden tlsCertificate.privateKey",
				}
				if !slices.Equal(got, want) || c.Same != 3 || c.Equal() {
					t.Errorf("%d are equal, and these differ:\n%q\nexpected\n%q", c.Same, got, want)
				}
				text, err := json.Marshal(c)
				if err != nil || strings.Contains(string(text), "SECRET") {
					t.Errorf("%v: %s", err, text)
				}
			})
		})
	}
}

// TestCompareSettles: servers between which an update is on its way are equal in the end.
func TestCompareSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := content()
		changed[0] = xdstest.Cluster("a", 2*time.Second)
		a, _, first, second := pairOf(t, xdsget.Config{Delta: true}, content(), changed)
		time.AfterFunc(time.Second, func() { a.Set("", xdstest.Cluster("a", 2*time.Second)) })
		began := time.Now()
		c := compare(t, first, second)
		if !c.Equal() || c.Same != 7 {
			t.Errorf("the comparison is %+v", c)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

// TestCompareEncodings: the same message in another encoding, also inside of an Any, is equal.
func TestCompareEncodings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNumberValue(1), "b": structpb.NewNumberValue(2)}}
		encode := func(first, second string) []byte {
			var all []byte
			for _, name := range []string{first, second} {
				b, err := proto.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{name: inner.GetFields()[name]}})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, b...)
			}
			return all
		}
		cluster := func(first, second string) *clusterv3.Cluster {
			return &clusterv3.Cluster{Name: "a", TypedExtensionProtocolOptions: map[string]*anypb.Any{
				"x": {TypeUrl: "type.googleapis.com/google.protobuf.Struct", Value: encode(first, second)},
			}}
		}
		cfg := xdsget.Config{Delta: true, Want: []xdsget.Ref{{TypeURL: xdsclient.ClusterType, Name: "*"}}}
		_, _, first, second := pairOf(t, cfg, []proto.Message{cluster("a", "b")}, []proto.Message{cluster("b", "a")})
		if c := compare(t, first, second); !c.Equal() || c.Same != 1 {
			t.Errorf("the comparison is %+v", c)
		}
	})
}

// TestCompareSilent: a server that does not answer differs from one that does, and does not hide the
// reason.
func TestCompareSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := xdstest.NewMemory()
		a, b := m.NewStateOrigin(t, nil), m.NewStateOrigin(t, nil)
		// Before a session begins: one that is quick would have its answers, which are nothing, already.
		b.Stop()
		cfg := xdsget.Config{
			Addr: a.Addr(), Node: &corev3.Node{Id: "n"}, DialOptions: []grpc.DialOption{m.Option()},
			Delta: true, Want: xdsget.EnvoyRefs(), References: true,
		}
		first := start(t, cfg)
		cfg.Addr = b.Addr()
		second := start(t, cfg)
		c := compare(t, first, second)
		if c.Equal() || c.Here.Problem != "" || c.There.Problem != "cannot connect to "+b.Addr()+": connection refused" || len(c.There.Silent) != 2 {
			t.Errorf("the comparison is %+v", c)
		}
	})
}
