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

// render renders the chart as helm install does, and returns its manifests and notes.
func render(t *testing.T, values map[string]any) (all []manifest, notes string, err error) {
	t.Helper()
	return renderChart(t, loadChart(t), values)
}

// renderChart returns the manifests that helm install creates, and the notes.
func renderChart(t *testing.T, c *chart.Chart, values map[string]any) (all []manifest, notes string, err error) {
	t.Helper()
	all, notes, err = renderFiles(t, c, values)
	return slices.DeleteFunc(all, manifest.isHook), notes, err
}

// renderHooks returns the manifests that helm test creates.
func renderHooks(t *testing.T, values map[string]any) []manifest {
	t.Helper()
	all, _, err := renderFiles(t, loadChart(t), values)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(m manifest) bool { return !m.isHook() })
}

func renderFiles(t *testing.T, c *chart.Chart, values map[string]any) (all []manifest, notes string, err error) {
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

// TestChart renders the chart with many values: Kubernetes knows every field, the parts fit
// each other, the pods comply with the restricted Pod Security Standard, and the program
// accepts the configuration.
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
				t.Errorf("the notes are\n%s", notes)
			}
			for _, m := range all {
				if m.namespace() != "mesh" {
					t.Errorf("%s is in the namespace %q", m, m.namespace())
				}
			}
		})
	}
}

// TestChartParts: the chart has the objects that the values enable, and no others.
func TestChartParts(t *testing.T) {
	for file, want := range map[string]string{
		"minimal":      "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"tier-token":   "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount",
		"cert-manager": "Certificate Certificate ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount",
		"everything":   "ConfigMap ConfigMap ConfigMap ConfigMap ConfigMap Deployment NetworkPolicy PodDisruptionBudget PodMonitor PrometheusRule Service Service ServiceAccount",
		"daemonset":    "ConfigMap DaemonSet Service ServiceAccount",
		"autoscaling":  "ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"listeners":    "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"existing":     "Deployment NetworkPolicy PodDisruptionBudget Service",

		"service-monitor": "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount ServiceMonitor",
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

// TestChartRefuses: the chart fails with the value to set, before it installs anything, if
// the values contradict each other, are incomplete or unknown.
func TestChartRefuses(t *testing.T) {
	const tier = "allowPlaintext: true\nconfig: {upstream: {addresses: [a:1]}, tier: {redis: {url: redis://r:1}}}\n"
	for name, tc := range map[string]struct{ values, want string }{
		"no control plane":              {"{}", "config.upstream must have"},
		"clients without TLS":           {upstream, "allowPlaintext=true"},
		"clients without TLS, certs":    {upstream, "tls.secretName or certManager.enabled"},
		"polling without TLS":           {"config: {upstream: {addresses: [a:1]}, listener: {allow_plaintext: true}}\nports: {rest: 18001}", "port 18001 for clients has no TLS"},
		"polling without SPIFFE":        {"config: {upstream: {addresses: [a:1]}, listener: {tls: {workload_api: 'unix:///a'}}}\nports: {rest: 18001}", "port 18001 for clients has no TLS"},
		"relays without TLS":            {tier + "tier: {peer: {tokenSecret: {name: x}}}", "tier.peer.allowPlaintext=true"},
		"relays without authentication": {tier + "tier: {peer: {allowPlaintext: true}}", "authenticate each other"},
		"unknown value":                 {minimal + "replicas: 3", "replicas"},
		"unknown value of the image":    {minimal + "image: {pullSecrets: []}", "pullSecrets"},
		"unknown kind":                  {minimal + "kind: StatefulSet", "/kind"},
		"wrong type":                    {minimal + "replicaCount: three", "/replicaCount"},
		"nested unknown value":          {minimal + "tls: {secret: x}", "secret"},
		"own drain":                     {"config: {upstream: {addresses: [a:1]}, drain: {duration: 1m}}", "drain.durationSeconds"},
		"autoscaled DaemonSet":          {minimal + "kind: DaemonSet\nautoscaling: {enabled: true}", "kind: Deployment"},
		"two monitors":                  {minimal + "serviceMonitor: {enabled: true}\npodMonitor: {enabled: true}", "twice"},
		"no issuer":                     {minimal + "certManager: {enabled: true}", "issuerRef.name"},
		"one issuer for all":            {minimal + "certManager: {enabled: true, issuerRef: {name: x}, peerIssuerRef: {name: x}}", "identifies a relay"},
		"clients without rules":         {minimal + "tls: {secretName: x, clientAuth: true}", "config.authorization"},
		"mistyped key":                  {"config: {upstream: {adresses: [a:1]}}", "adresses"},
		"key of wrong type":             {minimal + "replicaCount: 1\nports: {xds: 80}", "/ports/xds"},
		"own port":                      {"config: {upstream: {addresses: [a:1]}, listener: {address: ':9'}}", "ports.xds"},
		"probes elsewhere":              {"config: {upstream: {addresses: [a:1]}, metrics: {address: ':9'}}", "ports.metrics"},
		"labels of the selector":        {minimal + "podLabels: {app.kubernetes.io/name: x}", "app.kubernetes.io/name"},
		"common labels of the selector": {minimal + "commonLabels: {app.kubernetes.io/name: x}", "app.kubernetes.io/name"},
		"the service's selector":        {minimal + "service: {spec: {selector: {a: b}}}", "selector"},
		"Redis without own TLS":         {minimal + "tier: {redis: {tls: {clientAuth: true}}}", "tier.redis.tls.secretName"},
		"clients without own TLS":       {minimal + "tls: {clientAuth: true}", "requires certificates"},
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

const (
	upstream = "config: {upstream: {addresses: [a:1]}}\n"
	minimal  = "allowPlaintext: true\n" + upstream
)

// TestChartPlaintext: ports without TLS are possible if the values allow them, and the notes
// then warn about them; a relay with TLS does not become plaintext by that.
func TestChartPlaintext(t *testing.T) {
	const tier = "config: {upstream: {addresses: [a:1]}, tier: {redis: {url: redis://r:1}}}\n"
	for name, tc := range map[string]struct {
		values         string
		clients, peers bool
	}{
		"allowed":                      {minimal, true, false},
		"allowed by the configuration": {"config: {upstream: {addresses: [a:1]}, listener: {allow_plaintext: true}}", true, false},
		"with TLS":                     {upstream + "tls: {secretName: x}", false, false},
		"with TLS, and allowed":        {minimal + "tls: {secretName: x}", false, false},
		"of a file":                    {"existingConfigMap: x", false, false},
		"of a file, and allowed":       {"existingConfigMap: x\nallowPlaintext: true", true, false},
		"between relays":               {tier + "tls: {secretName: x}\ntier: {peer: {tokenSecret: {name: token}, allowPlaintext: true}}", false, true},
		"between relays, with TLS":     {tier + "tls: {secretName: x}\ntier: {peer: {tls: {secretName: peers}, allowPlaintext: true}}", false, false},
	} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(tc.values), &values); err != nil {
			t.Fatal(err)
		}
		all, notes, err := render(t, values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkManifests(t, all)
		if got := strings.Contains(notes, "clients connect without TLS"); got != tc.clients {
			t.Errorf("%s: the notes warn about clients: %v\n%s", name, got, notes)
		}
		if got := strings.Contains(notes, "relays connect to each other without TLS"); got != tc.peers {
			t.Errorf("%s: the notes warn about relays: %v\n%s", name, got, notes)
		}
		for _, m := range all {
			if s, ok := m.object.(*core.Service); ok && s.Name == "shop-xdsrelay" {
				if got := *s.Spec.Ports[0].AppProtocol; got != map[bool]string{true: "grpc", false: "tls"}[tc.clients] {
					t.Errorf("%s: the Service has the protocol %s", name, got)
				}
			}
			if c, ok := m.object.(*core.ConfigMap); ok && strings.Contains(c.Data["relay.yaml"], "allow_plaintext: true") != (tc.clients || tc.peers) {
				t.Errorf("%s: the configuration is\n%s", name, c.Data["relay.yaml"])
			}
		}
	}
}

// TestChartExtras: the values that add to pods and objects have their effect.
func TestChartExtras(t *testing.T) {
	all, _, err := render(t, readValues(t, "testdata/values/everything.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []string
	for _, m := range all {
		objects = append(objects, m.String())
		own := !strings.HasSuffix(m.String(), "-object") && !strings.HasSuffix(m.String(), "-text")
		if own && m.object.GetLabels()["cost-center"] != "mesh" {
			t.Errorf("%s lacks the common label", m)
		}
	}
	for _, want := range []string{"ConfigMap shop-object", "ConfigMap shop-xr-text"} {
		if !slices.Contains(objects, want) {
			t.Errorf("there is no %s in %q", want, objects)
		}
	}
	w := workloadOf(t, all)
	if w.pod.Labels["cost-center"] != "mesh" || w.pod.Labels["team"] != "mesh" || w.selector.MatchLabels["cost-center"] != "" {
		t.Errorf("the pods have the labels %v, and their selector is %v", w.pod.Labels, w.selector)
	}
	spec := w.pod.Spec
	if c := spec.Containers[0]; c.Name != "xdsrelay" || !slices.Equal(c.Args[len(c.Args)-2:], []string{"--linger", "30s"}) {
		t.Errorf("%s has the arguments %q", c.Name, c.Args)
	}
	if len(spec.InitContainers) != 1 || len(spec.Containers) != 2 {
		t.Errorf("there are %d init containers and %d containers", len(spec.InitContainers), len(spec.Containers))
	}
	all, _, err = render(t, readValues(t, "testdata/values/existing.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	spec = workloadOf(t, all).pod.Spec
	if want := []core.LocalObjectReference{{Name: "mirror"}, {Name: "pull"}}; !slices.Equal(spec.ImagePullSecrets, want) || !strings.HasPrefix(spec.Containers[0].Image, "mirror.example/relays/") {
		t.Errorf("the image is %s, with %v", spec.Containers[0].Image, spec.ImagePullSecrets)
	}
}

// TestChartRolls: a change of a key that requires a restart replaces the pods, and no other
// change does: each replacement drains all clients.
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
	const origin = "allowPlaintext: true\nconfig: {upstream: {addresses: [a:1]}, "
	first := template(minimal, same)
	if !strings.Contains(first, "checksum/config") {
		t.Error("the pods do not name their configuration")
	}
	for name, values := range map[string]string{
		"replicas": minimal + "replicaCount: 7", "limits": origin + "limits: {max_streams: 9}}", "log": origin + "log: {level: debug, levels: [cache=warn]}}",
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
		"origin": "allowPlaintext: true\nconfig: {upstream: {addresses: [b:1]}}", "keys": origin + "aggregation: {rules: [{name: all, key: node.cluster}]}}",
		"a limit": origin + "limits: {max_header_size: 32KiB}}", "the format of the log": origin + "log: {format: text}}",
	} {
		if template(values, same) == first {
			t.Errorf("%s: pods are not replaced", name)
		}
	}
}

// TestChartListeners: the Service has the additional ports that are reachable from outside
// the pod, with their protocol.
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
