package csds

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// FuzzMatch: whatever nodes a request asks for, it is refused, or the same nodes
// match each time.
func FuzzMatch(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"node_matchers": [{}]}`, `{"nodeMatchers": [{"nodeId": {"exact": "n", "ignoreCase": true}}, {"nodeId": {"safeRegex": {"regex": "^(a|n)*$"}}}]}`,
		`{"nodeMatchers": [{"nodeMetadatas": [{"path": [{"key": "team"}, {"key": "name"}], "value": {"stringMatch": {"prefix": "c"}}}]}]}`,
		`{"nodeMatchers": [{"nodeMetadatas": [{"path": [{"key": "list"}], "value": {"listMatch": {"oneOf": {"doubleMatch": {"range": {"start": 1, "end": 3}}}}}}]}]}`,
		`{"nodeMatchers": [{"nodeMetadatas": [{"path": [{"key": "none"}], "value": {"presentMatch": true}, "invert": true}]}]}`,
	} {
		f.Add([]byte(text))
	}
	metadata, err := structpb.NewStruct(map[string]any{"team": map[string]any{"name": "core"}, "list": []any{1, "a", nil, true}})
	if err != nil {
		f.Fatal(err)
	}
	nodes := []*corev3.Node{nil, {Id: "n"}, {Id: "N", Metadata: metadata}}
	f.Fuzz(func(t *testing.T, body []byte) {
		req := &statusv3.ClientStatusRequest{}
		if protojson.Unmarshal(body, req) != nil {
			return
		}
		m, err := newMatcher(req.GetNodeMatchers())
		if err != nil {
			if err.Error() == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		for _, n := range nodes {
			if first, again := m.node(n), m.node(n); first != again {
				t.Errorf("%s matches %v, or does not", body, n)
			}
		}
	})
}
