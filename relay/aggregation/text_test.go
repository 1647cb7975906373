package aggregation_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
)

// TestText holds what expressions give that are strings, and what is refused.
func TestText(t *testing.T) {
	env, err := aggregation.NewEnv(0)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev3.Node{Cluster: "web", Locality: &corev3.Locality{Zone: "a"}}
	for _, tc := range []struct{ src, want, issue string }{
		{"node.locality.zone", "a", ""},
		{`node.cluster + "/" + listener`, "web/main", ""},
		{"node.zone", "", "zone"},
		{"node.cluster == ''", "", "expected string"},
		{"node.cluster +", "", "syntax error"},
		{"[node.cluster].map(x, x + x).join(',')", "", "join"},
	} {
		text, issues := env.Text(tc.src)
		if len(issues) > 0 {
			if tc.issue == "" || !strings.Contains(issues[0].Message, tc.issue) {
				t.Errorf("%s: %v, expected %q", tc.src, issues, tc.issue)
			}
			continue
		}
		if got, err := text.Of(node, aggregation.Peer{Listener: "main"}); err != nil || got != tc.want || tc.issue != "" {
			t.Errorf("%s gives %q and %v, expected %q", tc.src, got, err, tc.want)
		}
	}
	text, _ := env.Text("node.metadata.group")
	if text == nil {
		t.Skip("metadata is no text")
	}
	if _, err := text.Of(node, aggregation.Peer{}); err == nil {
		t.Error("no error without metadata")
	}
}
