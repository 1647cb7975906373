package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// alertsFile is both a rule file of Prometheus and what the chart makes its
// PrometheusRule of.
const alertsFile = chartDir + "/files/alerts.yaml"

func readAlerts(t *testing.T) (all []monitoring.Rule) {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var spec monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		t.Fatal(err)
	}
	for _, g := range spec.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("there are %d alerts", len(all))
	}
	return all
}

// runbookURL is the default of the chart's prometheusRule.runbookURL.
const runbookURL = "https://xdsrelay.example/docs/operate/runbook.md"

// entryParts are the parts of each entry of the runbook, in this order.
var entryParts = []string{"Meaning", "Impact", "Diagnosis", "Mitigation"}

// TestAlerts: each alert uses metrics that exist, keeps the labels job and namespace, has a severity,
// a summary and a description, and links to its entry in the runbook, which has no others.
func TestAlerts(t *testing.T) {
	runbook, err := os.ReadFile(repository + "/docs/operate/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]bool{}
	headings := regexp.MustCompile(`(?m)^### (XDSRelay\w+)$`).FindAllStringSubmatchIndex(string(runbook), -1)
	for i, h := range headings {
		name, end := string(runbook[h[2]:h[3]]), len(runbook)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		entries[name] = true
		var parts []string
		for _, m := range regexp.MustCompile(`(?m)^\*\*(\w+)\*\*`).FindAllSubmatch(runbook[h[1]:end], -1) {
			parts = append(parts, string(m[1]))
		}
		if !slices.Equal(parts, entryParts) {
			t.Errorf("the entry %s has the parts %v, expected %v", name, parts, entryParts)
		}
	}
	seen := map[string]bool{}
	for _, r := range readAlerts(t) {
		if seen[r.Alert] {
			t.Errorf("%s exists twice", r.Alert)
		}
		seen[r.Alert] = true
		checkExpression(t, r.Alert, r.Expr.String())
		switch r.Labels["severity"] {
		case "critical", "warning", "info":
		default:
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		for _, grouping := range regexp.MustCompile(`\b(sum|max|min|avg|count)( by \(([^)]*)\))?`).FindAllStringSubmatch(r.Expr.String(), -1) {
			if !strings.Contains(grouping[3], "job, namespace") {
				t.Errorf("%s: %s mixes jobs and namespaces", r.Alert, grouping[0])
			}
		}
		if got, want := r.Annotations["runbook_url"], runbookURL+"#"+strings.ToLower(r.Alert); got != want || !entries[r.Alert] {
			t.Errorf("%s links to %q, want %q; the entry exists: %v", r.Alert, got, want, entries[r.Alert])
		}
		delete(entries, r.Alert)
	}
	for name := range entries {
		t.Errorf("the runbook has an entry %s, which is no alert", name)
	}
}

// TestRunbookURL: the chart's alerts link to the runbook of the value.
func TestRunbookURL(t *testing.T) {
	const own = "https://runbooks.example/relay.md"
	for value, want := range map[string]string{"": runbookURL, own: own} {
		rule := map[string]any{"enabled": true}
		if value != "" {
			rule["runbookURL"] = value
		}
		values := readValues(t, "testdata/values/everything.yaml")
		values["prometheusRule"] = rule
		all, _, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range all {
			rule, is := m.object.(*monitoring.PrometheusRule)
			if !is {
				continue
			}
			for _, g := range rule.Spec.Groups {
				for _, r := range g.Rules {
					found++
					if got := r.Annotations["runbook_url"]; got != want+"#"+strings.ToLower(r.Alert) {
						t.Errorf("%s links to %s, expected %s", r.Alert, got, want)
					}
				}
			}
		}
		if found < 15 {
			t.Errorf("the chart has %d alerts", found)
		}
	}
}

// TestAlertsFire: Prometheus accepts the rules, and each alert fires when it should, and not in a case
// close to that (testdata/alerts.yaml).
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("there is no promtool: `bash .ci/prometheus` installs it on Debian")
	}
	tests, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readAlerts(t) {
		for _, kind := range []string{"fires", "is quiet"} {
			if !strings.Contains(string(tests), "  - name: "+r.Alert+" "+kind+"\n") {
				t.Errorf("no test holds that %s %s", r.Alert, kind)
			}
		}
	}
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // the tests name the rules relative to themselves
	for name, text := range map[string][]byte{"alerts.yaml": rules, "tests.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "tests.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
