package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/xdsrelay"

// render renders the chart as helm install does, and returns its manifests and what
// it tells whoever installs it.
func render(t *testing.T, values map[string]any) (all []manifest, notes string, err error) {
	t.Helper()
	return renderChart(t, loadChart(t), values)
}

func renderChart(t *testing.T, c *chart.Chart, values map[string]any) (all []manifest, notes string, err error) {
	t.Helper()
	capabilities := common.DefaultCapabilities.Copy()
	full, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "shop", Namespace: "mesh", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Engine{Strict: true}.Render(c, full)
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case path.Base(name) == "NOTES.txt":
			notes = files[name]
		case path.Ext(name) == ".yaml":
			all = append(all, split(t, name, files[name])...)
		}
	}
	return all, notes, nil
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// readValues reads a file of values.
func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return values
}

// TestChart renders the chart with many values, and holds that Kubernetes knows every
// field, that the parts fit one another, that the pods keep to the restricted Pod
// Security Standard, and that the program takes its configuration.
func TestChart(t *testing.T) {
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files of values: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			values := readValues(t, file)
			all, notes, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			checkManifests(t, all)
			if !strings.Contains(notes, "/xdsrelay nodes") || !strings.Contains(notes, ".mesh.svc:18000") {
				t.Errorf("the notes say\n%s", notes)
			}
			for _, m := range all {
				if m.namespace() != "mesh" {
					t.Errorf("%s is in the namespace %q", m, m.namespace())
				}
			}
		})
	}
}

// TestChartParts: what is asked for is there, and what is not, is not.
func TestChartParts(t *testing.T) {
	for file, want := range map[string]string{
		"minimal":      "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"tier-token":   "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount",
		"cert-manager": "Certificate Certificate ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount",
		"everything":   "ConfigMap ConfigMap ConfigMap Deployment NetworkPolicy PodDisruptionBudget PodMonitor PrometheusRule Service Service ServiceAccount",
		"daemonset":    "ConfigMap DaemonSet Service ServiceAccount",
		"autoscaling":  "ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"listeners":    "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"existing":     "Deployment NetworkPolicy PodDisruptionBudget Service",
	} {
		all, _, err := render(t, readValues(t, "testdata/values/"+file+".yaml"))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var kinds []string
		for _, m := range all {
			kinds = append(kinds, m.Kind)
		}
		slices.Sort(kinds)
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s gives %s, want %s", file, got, want)
		}
	}
}

// TestChartRefuses: what cannot work is refused with what to do, before anything is
// installed.
func TestChartRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"no origin":               {"{}", "config.upstream has to name"},
		"unknown value":           {minimal + "replicaCount: 3", "replicaCount"},
		"unknown kind":            {minimal + "kind: StatefulSet", "/kind"},
		"wrong type":              {minimal + "replicas: three", "/replicas"},
		"nested unknown value":    {minimal + "tls: {secret: x}", "secret"},
		"tier without proof":      {"config: {upstream: {addresses: [a:1]}, tier: {redis: {url: redis://r:1}}}", "prove"},
		"drain of its own":        {"config: {upstream: {addresses: [a:1]}, drain: {duration: 1m}}", "drain.seconds"},
		"autoscaled DaemonSet":    {minimal + "kind: DaemonSet\nautoscaling: {enabled: true}", "kind: Deployment"},
		"no issuer":               {minimal + "certManager: {enabled: true}", "issuerRef.name"},
		"one issuer for all":      {minimal + "certManager: {enabled: true, issuerRef: {name: x}, peerIssuerRef: {name: x}}", "counts as a relay"},
		"clients without rules":   {minimal + "tls: {secretName: x, clientAuth: true}", "config.authorization"},
		"misspelt field":          {"config: {upstream: {adresses: [a:1]}}", "adresses"},
		"field of wrong type":     {minimal + "replicas: 1\nports: {xds: 80}", "/ports/xds"},
		"port of its own":         {"config: {upstream: {addresses: [a:1]}, listener: {address: ':9'}}", "ports.xds"},
		"probes elsewhere":        {"config: {upstream: {addresses: [a:1]}, metrics: {address: ':9'}}", "ports.metrics"},
		"labels of the selector":  {minimal + "podLabels: {app.kubernetes.io/name: x}", "app.kubernetes.io/name"},
		"the service's selector":  {minimal + "service: {spec: {selector: {a: b}}}", "selector"},
		"Redis without own TLS":   {minimal + "tier: {redis: {clientAuth: true}}", "tier.redis.tlsSecret"},
		"clients without own TLS": {minimal + "tls: {clientAuth: true}", "needs certificates"},
	} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(tc.values), &values); err != nil {
			t.Fatal(err)
		}
		if _, _, err := render(t, values); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

const minimal = "config: {upstream: {addresses: [a:1]}}\n"

// TestChartRolls: pods are replaced when what a relay takes only at its start changes, and
// only then: each roll sends all clients away.
func TestChartRolls(t *testing.T) {
	template := func(values string, change func(*chart.Chart)) string {
		t.Helper()
		v := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &v); err != nil {
			t.Fatal(err)
		}
		c := loadChart(t)
		change(c)
		all, _, err := renderChart(t, c, v)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(workloadOf(t, all).pod)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	same := func(*chart.Chart) {}
	const origin = "config: {upstream: {addresses: [a:1]}, "
	first := template(minimal, same)
	if !strings.Contains(first, "checksum/config") {
		t.Error("the pods do not name their configuration")
	}
	for name, values := range map[string]string{
		"replicas": minimal + "replicas: 7", "limits": origin + "limits: {max_streams: 9}}", "log": origin + "log: {level: debug, levels: [cache=warn]}}",
		"authorize": origin + "authorization: {allow_any: true}}", "monitoring": minimal + "podMonitor: {enabled: true}",
	} {
		if template(values, same) != first {
			t.Errorf("%s: pods are replaced", name)
		}
	}
	if template(minimal, func(c *chart.Chart) { c.Metadata.Version = "0.2.0" }) != first {
		t.Error("pods are replaced for another version of the chart")
	}
	for name, values := range map[string]string{
		"origin": "config: {upstream: {addresses: [b:1]}}", "keys": origin + "aggregation: {rules: [{name: all, key: node.cluster}]}}",
		"a limit": origin + "limits: {max_header_size: 32KiB}}", "the format of the log": origin + "log: {format: text}}",
	} {
		if template(values, same) == first {
			t.Errorf("%s: pods are not replaced", name)
		}
	}
}

// TestChartListeners: further ports for clients are in the Service, where they can be
// reached from outside the pod, and say whether they speak TLS.
func TestChartListeners(t *testing.T) {
	all, _, err := render(t, readValues(t, "testdata/values/listeners.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		if s, ok := m.object.(*core.Service); ok {
			for _, p := range s.Spec.Ports {
				got = append(got, fmt.Sprintf("%d %s %s", p.Port, p.TargetPort.StrVal, *p.AppProtocol))
			}
			if s.Spec.IPFamilyPolicy == nil || *s.Spec.IPFamilyPolicy != core.IPFamilyPolicyPreferDualStack {
				t.Errorf("the families of addresses are %v", s.Spec.IPFamilyPolicy)
			}
		}
	}
	if want := []string{"18000 xds tls", "18002 xds-18002 grpc", "18003 xds-18003 tls"}; !slices.Equal(got, want) {
		t.Errorf("the Service has %q, want %q", got, want)
	}
}

// TestChartValuesAreDocumented: the schema knows each value, and no other.
func TestChartValuesAreDocumented(t *testing.T) {
	c := loadChart(t)
	if len(c.Schema) == 0 {
		t.Fatal("the chart has no schema")
	}
	var schema map[string]any
	if err := yaml.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	compareSchema(t, "", schema, c.Values)
}

// compareSchema compares the properties of objects that are closed.
func compareSchema(t *testing.T, at string, schema, values map[string]any) {
	t.Helper()
	if schema["additionalProperties"] != false {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	if got, want := slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(values)); !slices.Equal(got, want) {
		t.Errorf("%s: the schema has %v, the values %v", at, got, want)
	}
	for name, value := range values {
		if inner, ok := value.(map[string]any); ok {
			compareSchema(t, fmt.Sprintf("%s.%s", at, name), properties[name].(map[string]any), inner)
		}
	}
}
