package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// dashboard is what the checks read of Grafana's format.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		GridPos     struct {
			X, Y, W, H int
		} `json:"gridPos"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// variables are those of each dashboard; each panel selects by all of them.
var variables = []string{"datasource", "namespace", "job", "instance"}

// TestDashboards: dashboards have the variables, refer only to metrics that exist and select them by
// the variables, describe each panel, use no id twice, and no panel covers another.
func TestDashboards(t *testing.T) {
	files, err := filepath.Glob(chartDir + "/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	uids := map[string]bool{}
	var expressions []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if d.UID == "" || d.Title == "" || uids[d.UID] {
			t.Errorf("%s: uid %q, title %q", file, d.UID, d.Title)
		}
		uids[d.UID] = true
		var names []string
		for _, v := range d.Templating.List {
			names = append(names, v.Name)
			if v.Name != "datasource" {
				checkExpression(t, file+", variable "+v.Name, string(v.Query))
			}
		}
		if !slices.Equal(names, variables) {
			t.Errorf("%s has the variables %v, expected %v", file, names, variables)
		}
		ids := map[int]bool{}
		cells := map[[2]int]string{}
		for _, p := range d.Panels {
			who := file + ", panel " + p.Title
			if ids[p.ID] || (p.Type != "row") != (len(p.Targets) > 0) {
				t.Errorf("%s: id %d, %d targets", who, p.ID, len(p.Targets))
			}
			ids[p.ID] = true
			if p.Title == "" || p.Type != "row" && p.Description == "" {
				t.Errorf("%s lacks a title or a description", who)
			}
			for _, target := range p.Targets {
				checkExpression(t, who, target.Expr)
				const selector = `{namespace=~"$namespace",job=~"$job",instance=~"$instance"`
				if n := len(metricName.FindAllString(target.Expr, -1)); strings.Count(target.Expr, selector) != n {
					t.Errorf("%s: not each of %d metrics is selected by the variables: %s", who, n, target.Expr)
				}
				expressions = append(expressions, target.Expr)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
						t.Fatalf("%s lies over %q", who, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
		}
	}
	checkSyntax(t, expressions)
}

// checkSyntax lets promtool read expressions, as rules that record them.
func checkSyntax(t *testing.T, expressions []string) {
	t.Helper()
	var rules []monitoring.Rule
	for i, e := range expressions {
		e = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$namespace", ".*", "$job", ".*").Replace(e)
		rules = append(rules, monitoring.Rule{Record: fmt.Sprintf("expression_%d", i), Expr: intstr.FromString(e)})
	}
	text, err := yaml.Marshal(monitoring.PrometheusRuleSpec{Groups: []monitoring.RuleGroup{{Name: "dashboards", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
