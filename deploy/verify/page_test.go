package verify

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// TestDeployPage: the commands of docs/install.md and docs/operate/deploy.md work. The helm
// commands give manifests, one after the other in their order; the make targets and files
// exist; and the bootstraps are printed.
func TestDeployPage(t *testing.T) {
	var page []byte
	for _, name := range []string{"/docs/install.md", "/docs/operate/deploy.md"} {
		text, err := os.ReadFile(repository + name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	makefile, err := os.ReadFile(repository + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	tried := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			switch fields := strings.Fields(line); fields[0] {
			case "helm":
				for _, m := range regexp.MustCompile(`--set '?([^' ]+)'?`).FindAllStringSubmatch(line, -1) {
					if err := strvals.ParseInto(m[1], values); err != nil {
						t.Errorf("%s: %v", m[1], err)
					}
				}
				all, _, err := render(t, values)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				checkManifests(t, all)
			case "make":
				if !strings.Contains(string(makefile), "\n"+fields[1]+":") {
					t.Errorf("there is no target %s", fields[1])
				}
			case "xdsrelay":
				command, _, _ := strings.Cut(line, ">")
				if out, err := exec.Command(program, strings.Fields(command)[1:]...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", command, err, out)
				}
			default:
				continue
			}
			tried[strings.Fields(line)[0]]++
		}
	}
	if tried["helm"] < 2 || tried["make"] < 3 || tried["xdsrelay"] < 2 {
		t.Errorf("the page has lost its commands: %v", tried)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var v map[string]any
		if err := yaml.UnmarshalStrict([]byte(block[1]), &v); err != nil {
			t.Errorf("%v:\n%s", err, block[1])
		}
	}
	// The values in the tables of the pages are values of the chart.
	for _, m := range regexp.MustCompile("`((?:(?:tls|tier|certManager|lastKnownGood|serviceMonitor|podMonitor|prometheusRule|dashboards|autoscaling|drain|service|tests)\\.|extra|init)[A-Za-z.]+)`").FindAllStringSubmatch(string(page), -1) {
		var found any = loadChart(t).Values
		for part := range strings.SplitSeq(m[1], ".") {
			inner, _ := found.(map[string]any)
			found = inner[part]
		}
		if found == nil {
			t.Errorf("the chart has no value %s", m[1])
		}
	}
}
