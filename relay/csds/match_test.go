package csds

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/structpb"
)

// matchers reads the text form of a request.
func matchers(t *testing.T, text string) (*matcher, error) {
	t.Helper()
	req := &statusv3.ClientStatusRequest{}
	if err := prototext.Unmarshal([]byte(text), req); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return newMatcher(req.GetNodeMatchers())
}

// TestMatch: K20: each way to name clients, by id and by metadata.
func TestMatch(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{
		"app": "Shop", "canary": true, "weight": 2.5, "none": nil,
		"labels": map[string]any{"tier": "front"}, "zones": []any{"a", "b", 3.0},
	})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev3.Node{Id: "shop-7.Prod", Metadata: metadata}
	id := func(m string) string { return `node_matchers { node_id { ` + m + ` } }` }
	at := func(path, value string) string {
		var segments strings.Builder
		for key := range strings.SplitSeq(path, ".") {
			segments.WriteString(`path { key: "` + key + `" }`)
		}
		return `node_metadatas { ` + segments.String() + ` value { ` + value + ` } }`
	}
	meta := func(path, value string) string { return `node_matchers { ` + at(path, value) + ` }` }
	for text, want := range map[string]bool{
		``:                 true,
		`node_matchers {}`: true,

		id(`exact: "shop-7.Prod"`):                                              true,
		id(`exact: "shop-7.prod"`):                                              false,
		id(`exact: "shop-7.prod" ignore_case: true`):                            true,
		id(`prefix: "shop"`):                                                    true,
		id(`prefix: "SHOP"`):                                                    false,
		id(`prefix: "SHOP" ignore_case: true`):                                  true,
		id(`suffix: ".Prod"`):                                                   true,
		id(`suffix: "shop"`):                                                    false,
		id(`contains: "-7."`):                                                   true,
		id(`contains: "-8."`):                                                   false,
		id(`safe_regex { regex: "shop-[0-9]+\\.Prod" }`):                        true,
		id(`safe_regex { regex: "shop" }`):                                      false, // all of it has to match
		id(`safe_regex { regex: "x|shop-7.Prod" }`):                             true,
		id(`safe_regex { regex: "shop|Prod" }`):                                 false,
		id(`exact: "x"`) + id(`exact: "shop-7.Prod"`):                           true, // one of them
		id(`exact: "x"`) + id(`exact: "y"`):                                     false,
		meta("app", `string_match { exact: "Shop" }`):                           true,
		meta("app", `string_match { prefix: "x" }`):                             false,
		meta("labels.tier", `string_match { exact: "front" }`):                  true,
		meta("labels.none", `string_match { exact: "front" }`):                  false,
		meta("app.tier", `string_match { exact: "front" }`):                     false,
		meta("canary", `bool_match: true`):                                      true,
		meta("canary", `bool_match: false`):                                     false,
		meta("app", `bool_match: false`):                                        false,
		meta("weight", `double_match { exact: 2.5 }`):                           true,
		meta("weight", `double_match { range { start: 2 end: 2.5 } }`):          false, // half open
		meta("weight", `double_match { range { start: 2.5 end: 3 } }`):          true,
		meta("app", `double_match { exact: 0 }`):                                false,
		meta("none", `null_match {}`):                                           true,
		meta("app", `null_match {}`):                                            false,
		meta("app", `present_match: true`):                                      true,
		meta("labels", `present_match: true`):                                   false,
		meta("absent", `present_match: true`):                                   false,
		meta("zones", `list_match { one_of { string_match { exact: "b" } } }`):  true,
		meta("zones", `list_match { one_of { string_match { exact: "c" } } }`):  false,
		meta("app", `list_match { one_of { string_match { exact: "Shop" } } }`): false,
		meta("app", `or_match { value_matchers { bool_match: true } value_matchers { string_match { exact: "Shop" } } }`): true,

		// All that one matcher asks for.
		`node_matchers { node_id { prefix: "shop" } ` + at("canary", `bool_match: true`) + at("app", `string_match { exact: "Shop" }`) + ` }`: true,
		`node_matchers { node_id { prefix: "shop" } ` + at("canary", `bool_match: true`) + at("app", `string_match { exact: "x" }`) + ` }`:    false,
		`node_matchers { node_id { prefix: "x" } ` + at("canary", `bool_match: true`) + ` }`:                                                  false,
	} {
		m, err := matchers(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if m.node(node) != want {
			t.Errorf("%s: matches %v, expected %v", text, !want, want)
		}
		if len(m.any) > 0 && m.any[0].metadata != nil && m.node(&corev3.Node{Id: node.GetId()}) {
			t.Errorf("%s matches a node without metadata", text)
		}
	}
}

// TestMatchRefuses: what asks for nothing that can be found out is refused, and
// the error says where it is.
func TestMatchRefuses(t *testing.T) {
	deep := `bool_match: true`
	for range maxDepth + 1 {
		deep = `list_match { one_of { ` + deep + ` } }`
	}
	for text, want := range map[string]string{
		`node_matchers { node_id {} }`:                                                                    "node_matchers[0].node_id: expected exact",
		`node_matchers {} node_matchers { node_id { prefix: "" } }`:                                       "node_matchers[1].node_id: an empty text",
		`node_matchers { node_id { safe_regex { regex: "(" } } }`:                                         "node_id: error parsing regexp",
		`node_matchers { node_id { safe_regex { regex: "a)|(b" } } }`:                                     "node_id: error parsing regexp",
		`node_matchers { node_id { safe_regex { regex: "" } } }`:                                          "of 0 bytes",
		`node_matchers { node_id { safe_regex { regex: "` + strings.Repeat("x", 2000) + `" } } }`:         "of 2000 bytes",
		`node_matchers { node_id { custom { name: "x" } } }`:                                              "expected exact",
		`node_matchers { node_metadatas { value { bool_match: true } } }`:                                 "node_metadatas[0]: expected a path",
		`node_matchers { node_metadatas { path { key: "a" } } }`:                                          "expected null_match",
		`node_matchers { node_metadatas { path { key: "a" } value { double_match {} } } }`:                "double_match: expected",
		`node_matchers { node_metadatas { path { key: "a" } value { or_match { value_matchers {} } } } }`: "expected null_match",
		`node_matchers { node_metadatas { path { key: "a" } value { ` + deep + ` } } }`:                   "nested deeper",
	} {
		if _, err := matchers(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, expected %q", text, err, want)
		}
	}
}
