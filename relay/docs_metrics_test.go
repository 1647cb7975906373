package relay_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Names of metrics in texts, as OpenTelemetry and as Prometheus write them. A name has at least two
// parts after the program, or is one of the short ones.
var (
	dottedMetric  = regexp.MustCompile("`xdsrelay\\.[a-z][a-z_]*(\\.[a-z][a-z_]*)*`")
	metricInQuery = regexp.MustCompile(`\bxdsrelay_[a-z][a-z_]*\b`)
)

// otherNames are names in the same form that are not metrics: attributes of spans, fields of metadata, a host.
var otherNames = map[string]bool{
	"xdsrelay.identity": true, "xdsrelay.key": true, "xdsrelay.mesh.svc": true, "xdsrelay.rollout": true,
	"xdsrelay.rollout.revision": true, "xdsrelay.rollout.policy": true, "xdsrelay.rollout.decision": true, "xdsrelay.rollout.step": true,
	"xdsrelay.rollout.share": true, "xdsrelay.rollout.canaries": true, "xdsrelay.rollout.affected": true, "xdsrelay.rollout.reason": true,
	"xdsrelay.rollout.by": true,
}

// TestDocsNameMetrics: each metric that a page, an alert, a dashboard or a manifest names exists.
func TestDocsNameMetrics(t *testing.T) {
	known := make(map[string]bool)
	for _, i := range allInstruments(t) {
		known[i.Name], known[i.Prometheus] = true, true
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			known[strings.TrimSuffix(i.Prometheus, "_total")+suffix] = true
		}
	}
	names := 0
	for _, dir := range []string{"README.md", "docs", "deploy/helm", "deploy/kustomize", "deploy/compose"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			switch filepath.Ext(path) {
			case ".md", ".yaml", ".json", ".tpl":
			default:
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for n, line := range strings.Split(string(text), "\n") {
				for _, name := range append(dottedMetric.FindAllString(line, -1), metricInQuery.FindAllString(line, -1)...) {
					name = strings.Trim(name, "`")
					if names++; !known[name] && !otherNames[name] {
						t.Errorf("%s:%d names %s, which is not a metric; docs/reference/metrics.md lists all", path, n+1, name)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if names < 100 {
		t.Errorf("found %d names of metrics, expected hundreds: are they written in another form?", names)
	}
}
