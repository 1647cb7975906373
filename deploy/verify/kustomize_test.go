package verify

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the files that are generated from the chart")

const kustomizeDir = "../kustomize"

// TestKustomizeBase: the base and the component for monitoring are generated from the chart, so
// that a relay has one description.
func TestKustomizeBase(t *testing.T) {
	all, _, err := render(t, readValues(t, kustomizeDir+"/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const header = "# Generated from the chart with ../values.yaml.\n"
	files := map[string]*strings.Builder{"base": {}, "components/monitoring": {}}
	for dir, b := range files {
		b.WriteString(strings.Replace(header, "../", strings.Repeat("../", strings.Count(dir, "/")+1), 1))
	}
	for _, m := range all {
		b := files["base"]
		if m.Kind == "PodMonitor" || m.Kind == "PrometheusRule" {
			b = files["components/monitoring"]
		}
		b.WriteString("---\n")
		inMetadata := false
		for line := range strings.Lines(strings.Trim(m.text, "\n") + "\n") {
			if !strings.HasPrefix(line, " ") {
				inMetadata = strings.HasPrefix(line, "metadata:")
			}
			switch name := strings.TrimSpace(strings.SplitN(line, ":", 2)[0]); {
			case name == "helm.sh/chart", name == "app.kubernetes.io/managed-by", name == "app.kubernetes.io/version": // describe Helm
			case name == "namespace" && inMetadata: // an overlay sets it
			default:
				b.WriteString(strings.Replace(line, "instance: shop", "instance: xdsrelay", 1))
			}
		}
	}
	for dir, b := range files {
		file := kustomizeDir + "/" + dir + "/resources.yaml"
		if *update {
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != b.String() {
			t.Errorf("%s is not what the chart generates (%v): go test . -run TestKustomizeBase -update", file, err)
		}
	}
}

// TestKustomize builds the base and the overlays: Kubernetes knows every field, the parts
// fit one another, and the program takes the configuration.
func TestKustomize(t *testing.T) {
	for _, dir := range []string{"base", "overlays/production"} {
		t.Run(dir, func(t *testing.T) {
			built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomizeDir+"/"+dir)
			if err != nil {
				t.Fatal(err)
			}
			text, err := built.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			all := split(t, dir, string(text))
			checkManifests(t, all)
			spec := workloadOf(t, all).pod.Spec
			if dir != "base" {
				checkNoWarnings(t, all)
			}
			volume := slices.IndexFunc(spec.Volumes, func(v core.Volume) bool { return v.ConfigMap != nil })
			config := spec.Volumes[volume].ConfigMap.Name
			configured := false
			for _, m := range all {
				if c, ok := m.object.(*core.ConfigMap); ok && c.Name == config {
					configured = true
				}
				if dir != "base" && m.namespace() != "xdsrelay" {
					t.Errorf("%s is in the namespace %q", m, m.namespace())
				}
			}
			if !configured {
				t.Errorf("there is no ConfigMap %s", config)
			}
			if image := spec.Containers[0].Image; dir != "base" && image != "registry.example.com/xdsrelay:v0.1.0" {
				t.Errorf("the image is %s", image)
			}
		})
	}
}

// TestKustomizeProduction: the production overlay has the settings of the production checklist,
// the limits of deploy/relay.production.yaml with the memory that they are for, and monitoring.
func TestKustomizeProduction(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomizeDir+"/overlays/production")
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	all := split(t, "production", string(text))
	kinds := map[string]int{}
	for _, m := range all {
		kinds[m.Kind]++
		if m.Kind == "PodMonitor" || m.Kind == "PrometheusRule" {
			if m.object.GetLabels()["release"] != "prometheus" {
				t.Errorf("%s has the labels %v", m, m.object.GetLabels())
			}
		}
		if p, ok := m.object.(*networking.NetworkPolicy); ok {
			for _, rule := range p.Spec.Ingress {
				if len(rule.From) == 0 {
					t.Errorf("%s allows any connection to port %s", m, rule.Ports[0].Port)
				}
			}
		}
	}
	for _, kind := range []string{"PodMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget"} {
		if kinds[kind] != 1 {
			t.Errorf("there are %d %s", kinds[kind], kind)
		}
	}
	if memory := workloadOf(t, all).pod.Spec.Containers[0].Resources.Limits.Memory().String(); memory != "1Gi" {
		t.Errorf("the memory is %s, and the limits are for 1Gi", memory)
	}
	overlay := readValues(t, kustomizeDir+"/overlays/production/relay.yaml")
	single := readValues(t, repository+"/deploy/relay.production.yaml")
	for _, section := range []string{"limits", "removal_guard", "drain", "log", "aggregation"} {
		if !reflect.DeepEqual(overlay[section], single[section]) {
			t.Errorf("%s is %v, and in relay.production.yaml %v", section, overlay[section], single[section])
		}
	}
	for _, key := range []string{
		"listener.tls.ca_file", "authorization.rules", "upstream.tls.ca_file", "upstream.tls.cert_file",
		"tier.redis.tls.ca_file", "tier.redis.password_file", "tier.peer.tls.ca_file", "tier.peer.token_file",
		"last_known_good.store", "last_known_good.encryption_keys_file", "removal_guard.max_percent", "metrics.address",
	} {
		var value any = overlay
		for part := range strings.SplitSeq(key, ".") {
			section, _ := value.(map[string]any)
			value = section[part]
		}
		if value == nil {
			t.Errorf("%s is not set", key)
		}
	}
}

// checkNoWarnings holds that the program has no warning about the configuration for
// production, and that no port is plaintext.
func checkNoWarnings(t *testing.T, all []manifest) {
	t.Helper()
	for _, m := range all {
		c, ok := m.object.(*core.ConfigMap)
		if !ok {
			continue
		}
		var config map[string]any
		if err := yaml.UnmarshalStrict([]byte(c.Data["relay.yaml"]), &config); err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		move(config, func(file string) string { return makeFile(t, root, file) })
		text, err := yaml.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		said, err := check(t, string(text), "POD_IP=10.0.0.1", "XDSRELAY_TIER_PEER_ADVERTISE_ADDRESS=10.0.0.1:18100")
		if err != nil || strings.Contains(said, "warning:") {
			t.Errorf("%v:\n%s", err, said)
		}
		if strings.Contains(c.Data["relay.yaml"], "plaintext: true") {
			t.Error("a port is plaintext")
		}
	}
}
