package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// TestAlerts: each alert speaks of metrics that exist, says how bad it is and what is
// wrong, and has an entry in the runbook, which has no others.
func TestAlerts(t *testing.T) {
	runbook, err := os.ReadFile(repository + "/docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (XDSRelay\w+)$`).FindAllStringSubmatch(string(runbook), -1) {
		entries[m[1]] = true
	}
	seen := map[string]bool{}
	for _, r := range readAlerts(t) {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		checkExpression(t, r.Alert, r.Expr.String())
		switch r.Labels["severity"] {
		case "critical", "warning", "info":
		default:
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s does not say what is wrong", r.Alert)
		}
		if got, want := r.Annotations["runbook_url"], "docs/runbook.md#"+strings.ToLower(r.Alert); got != want || !entries[r.Alert] {
			t.Errorf("%s points to %q, want %q; the entry is there: %v", r.Alert, got, want, entries[r.Alert])
		}
		delete(entries, r.Alert)
	}
	for name := range entries {
		t.Errorf("the runbook speaks of %s, which is no alert", name)
	}
}

// TestAlertsFire: Prometheus takes the rules, and each alert fires when it should, and
// not when it is only near that (testdata/alerts.yaml).
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
