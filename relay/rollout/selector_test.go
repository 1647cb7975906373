package rollout

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/aggregation"
)

// TestTraits holds what expressions say about clients. One that fails keeps the client away from
// candidates.
func TestTraits(t *testing.T) {
	pinned, err := structpb.NewStruct(map[string]any{"pinned": true, "env": "prod"})
	if err != nil {
		t.Fatal(err)
	}
	envoy := &corev3.Node{
		Id: "a", UserAgentName: "envoy", Locality: &corev3.Locality{Zone: "z1"},
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 36, Patch: 2},
		}},
	}
	grpc := &corev3.Node{
		Id: "b", UserAgentName: "gRPC Go", Metadata: pinned,
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.71.0"},
	}
	long := &corev3.Node{Id: "c", Cluster: strings.Repeat("é", maxTraitSize), Metadata: pinned}
	standard := Preset(Standard)
	for _, tc := range []struct {
		name   string
		change func(*Policy)
		node   *corev3.Node
		want   Traits
		err    string // a part of the error; empty for none
	}{
		{"Envoy by default", nil, envoy, Traits{Match: true, Group: "z1", Version: "envoy/1.36.2"}, ""},
		{"gRPC by default", nil, grpc, Traits{Match: true, Version: "gRPC Go/1.71.0"}, ""},
		{"no expressions", func(p *Policy) { p.Canaries.Spread, p.Scouts.By = "", "" }, envoy, Traits{Match: true}, ""},
		{"a match", func(p *Policy) { p.Canaries.Match = `node.id == "a" && listener == "main"` }, envoy, Traits{Match: true, Group: "z1", Version: "envoy/1.36.2"}, ""},
		{"no match", func(p *Policy) { p.Canaries.Match = `node.id == "a"` }, grpc, Traits{Version: "gRPC Go/1.71.0"}, ""},
		{"never", func(p *Policy) { p.Canaries.Never = "has(node.metadata.pinned)" }, grpc, Traits{Match: true, Never: true, Version: "gRPC Go/1.71.0"}, ""},
		{"not never", func(p *Policy) { p.Canaries.Never = "has(node.metadata.pinned)" }, envoy, Traits{Match: true, Group: "z1", Version: "envoy/1.36.2"}, ""},
		{"match fails", func(p *Policy) { p.Canaries.Match = `node.metadata.env == "prod"` }, envoy, Traits{Group: "z1", Version: "envoy/1.36.2"}, "canaries.match: "},
		{"never fails", func(p *Policy) { p.Canaries.Never = `node.metadata.env == "prod"` }, envoy, Traits{Match: true, Never: true, Group: "z1", Version: "envoy/1.36.2"}, "canaries.never: "},
		{"spread fails", func(p *Policy) { p.Canaries.Spread = "node.metadata.env" }, envoy, Traits{Match: true, Version: "envoy/1.36.2"}, "canaries.spread: "},
		{"another type", func(p *Policy) { p.Scouts.By = "node.metadata.pinned" }, grpc, Traits{Match: true}, "scouts.by: "},
		{"metadata", func(p *Policy) { p.Canaries.Spread, p.Scouts.By = "node.metadata.env", "" }, grpc, Traits{Match: true, Group: "prod"}, ""},
		{"a long text", func(p *Policy) { p.Canaries.Spread, p.Scouts.By = "node.cluster", "" }, long, Traits{Match: true, Group: strings.Repeat("é", maxTraitSize/2)}, ""},
	} {
		p := *standard
		if tc.change != nil {
			tc.change(&p)
		}
		s, mistakes := p.Compile(world(t).Env)
		if len(mistakes) > 0 {
			t.Errorf("%s: %v", tc.name, mistakes)
			continue
		}
		got, err := s.Of(tc.node, aggregation.Peer{Listener: "main"})
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) || !utf8.ValidString(got.Group) {
			t.Errorf("%s: %+v, %v, expected %+v and %q", tc.name, got, err, tc.want, tc.err)
		}
	}
	if (Traits{Match: true, Never: true}).IsEligible() || (Traits{}).IsEligible() || !(Traits{Match: true}).IsEligible() {
		t.Error("a client is eligible if it matches, unless never")
	}
}

// TestSelectorReads holds what is kept of a Node for the traits.
func TestSelectorReads(t *testing.T) {
	p := Policy{Canaries: Canaries{Match: `listener == "a"`, Spread: "node.locality.zone"}}
	s, mistakes := p.Compile(world(t).Env)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	if r := s.Reads(); !r.Client || r.Numbers() != 1<<4 { // locality
		t.Errorf("reads %b, of the client: %t", r.Numbers(), r.Client)
	}
	p.Canaries.Never = "node.nme == ''"
	if s, mistakes := p.Compile(world(t).Env); s != nil || len(mistakes) != 1 || !strings.HasPrefix(mistakes[0].Error(), "canaries.never: line 1, column 6 of the expression: ") {
		t.Errorf("%v, %v", s, mistakes)
	}
}

// TestPolicies holds which rules have a policy.
func TestPolicies(t *testing.T) {
	var none *Policies
	if none.Policy("a") != nil || none.Selector("a") != nil || none.Len() != 0 {
		t.Error("no policies have one")
	}
	p, s, off := Preset(Quick), &Selector{}, Preset(Quick)
	off.Mode = Off
	all := &Policies{}
	all.Use("a", p, s)
	all.Use("b", off, s)
	if all.Policy("a") != p || all.Selector("a") != s || all.Policy("b") != nil || all.Selector("b") != nil || all.Policy("c") != nil || all.Len() != 1 {
		t.Errorf("%+v", all)
	}
}
