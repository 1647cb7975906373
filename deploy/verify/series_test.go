package verify

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// others are series that do not come from docs/reference/metrics.md: of Prometheus itself, of the
// Go runtime and of the process, which every Go program has.
var others = map[string]bool{
	"up": true, "process_resident_memory_bytes": true, "process_cpu_seconds_total": true, "process_open_fds": true, "process_max_fds": true,
	"go_gc_gomemlimit_bytes": true, "go_goroutines": true, "go_memstats_heap_inuse_bytes": true,
}

// series are the names that Prometheus sees, from docs/reference/metrics.md, which is generated
// from the code; histograms have three each.
var series = sync.OnceValues(func() (map[string]bool, error) {
	text, err := os.ReadFile(repository + "/docs/reference/metrics.md")
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `xdsrelay\\.[a-z_.]+` \\| `([a-z_]+)` \\| ([a-z]+)").FindAllStringSubmatch(string(text), -1) {
		if m[2] != "histogram" {
			all[m[1]] = true
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			all[m[1]+part] = true
		}
	}
	return all, nil
})

// metricName finds what looks like a metric in an expression.
var metricName = regexp.MustCompile(`\b(xdsrelay_[a-z_]+|process_[a-z_]+|go_[a-z_]+)\b`)

// checkExpression holds that the metrics of a PromQL expression exist.
func checkExpression(t *testing.T, who, expression string) {
	t.Helper()
	found := metricName.FindAllString(expression, -1)
	if len(found) == 0 && !strings.Contains(expression, "up{") {
		t.Errorf("%s: there is no metric in %s", who, expression)
	}
	for _, name := range found {
		checkSeries(t, who, name)
	}
}

// checkSeries holds that a metric exists.
func checkSeries(t *testing.T, who, name string) {
	t.Helper()
	all, err := series()
	if err != nil || len(all) < 20 {
		t.Fatalf("docs/reference/metrics.md names %d series: %v", len(all), err)
	}
	if !all[name] && !others[name] {
		t.Errorf("%s: there is no metric %s", who, name)
	}
}
