package verify

import (
	"flag"
	"os"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the files that are generated from the chart")

const kustomizeDir = "../kustomize"

// TestKustomizeBase: the base is what the chart makes of values.yaml there, so that
// there is one description of a relay and not two.
func TestKustomizeBase(t *testing.T) {
	all, _, err := render(t, readValues(t, kustomizeDir+"/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Made from the chart; values.yaml says how.\n")
	for _, m := range all {
		b.WriteString("---\n")
		for line := range strings.Lines(strings.Trim(m.text, "\n") + "\n") {
			switch strings.TrimSpace(strings.SplitN(line, ":", 2)[0]) {
			case "helm.sh/chart", "app.kubernetes.io/managed-by", "namespace", "app.kubernetes.io/version": // what says Helm, and what an overlay says
			default:
				b.WriteString(strings.Replace(line, "instance: shop", "instance: xdsrelay", 1))
			}
		}
	}
	file := kustomizeDir + "/base/resources.yaml"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the chart makes (%v): go test . -run TestKustomizeBase -update", file, err)
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
			configured := false
			for _, m := range all {
				if c, ok := m.object.(*core.ConfigMap); ok && c.Name == spec.Volumes[0].ConfigMap.Name {
					configured = true
				}
				if dir != "base" && m.namespace() != "xdsrelay" {
					t.Errorf("%s is in the namespace %q", m, m.namespace())
				}
			}
			if !configured {
				t.Errorf("there is no ConfigMap %s", spec.Volumes[0].ConfigMap.Name)
			}
			if image := spec.Containers[0].Image; dir != "base" && image != "registry.example.com/xdsrelay:v0.1.0" {
				t.Errorf("the image is %s", image)
			}
		})
	}
}

// checkNoWarnings holds that what is called production leaves nothing open: the program
// has no warning about its configuration.
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
