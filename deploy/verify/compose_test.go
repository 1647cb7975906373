package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeDir = "../compose"

// TestCompose: Docker Compose takes the file, the program takes what its relays are
// started with, and what is mounted is there. Nothing is started.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile(composeDir + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(composeDir)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml"), Content: text}}, Environment: types.Mapping{},
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, s := range project.Services {
		kinds[strings.Split(s.Image, ":")[0]]++
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s mounts %s: %v, read-only: %v", s.Name, v.Source, err, v.ReadOnly)
			}
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s to everybody", s.Name, p.Published)
			}
		}
		if s.Image == "xdsrelay:compose" {
			checkService(t, s)
		}
	}
	if kinds["xdsrelay"] != 3 || kinds["envoyproxy/envoy"] != 2 || kinds["redis"] != 1 {
		t.Errorf("services %v", kinds)
	}
	for _, s := range project.Secrets {
		if _, err := os.Stat(s.File); err != nil {
			t.Error(err)
		}
	}
}

// checkService lets the program check what a service runs with.
func checkService(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.StopGracePeriod == nil || s.StopGracePeriod.String() != "45s" {
		t.Errorf("%s: read-only %v, without %v, has %v to end", s.Name, s.ReadOnly, s.CapDrop, s.StopGracePeriod)
	}
	if s.Command[0] != "run" {
		t.Fatalf("%s runs %q", s.Name, s.Command)
	}
	here := func(text string) string {
		for _, v := range s.Volumes {
			text = strings.ReplaceAll(text, v.Target, v.Source)
		}
		return strings.ReplaceAll(text, "/run/secrets/", composeDir+"/")
	}
	config, args := `upstream: {addresses: ["replaced:1"]}`, []string{"config", "validate"}
	for i := 1; i < len(s.Command); i++ {
		if s.Command[i] != "-c" {
			args = append(args, here(s.Command[i]))
			continue
		}
		i++
		text, err := os.ReadFile(here(s.Command[i]))
		if err != nil {
			t.Fatal(err)
		}
		config = here(string(text))
	}
	file := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(args, "-c", file)...)
	cmd.Env = []string{}
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+*value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: xdsrelay config validate: %v\n%s", s.Name, err, out)
	}
}

// TestComposeBootstrap: the Envoys' bootstrap is what the program prints.
func TestComposeBootstrap(t *testing.T) {
	out, err := exec.Command(program, "bootstrap", "envoy", "--relay", "relay-a:18000,relay-b:18000", "--node-id", "envoy", "--node-cluster", "demo").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(composeDir + "/envoy.yaml")
	if err != nil || string(got) != string(out) {
		t.Errorf("envoy.yaml is not what `xdsrelay bootstrap envoy` prints (%v):\n%s", err, out)
	}
}

// TestDockerfile: what the Dockerfile copies is there, and its image runs as nobody, with
// nothing in it but what it needs.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	last := string(text)[strings.LastIndex(string(text), "\nFROM "):]
	if !strings.HasPrefix(last, "\nFROM scratch\n") || !strings.Contains(last, "\nUSER 65532:65532\n") || !strings.Contains(last, "\nENTRYPOINT [\"/xdsrelay\"]\n") || strings.Contains(last, "\nRUN ") {
		t.Errorf("the last stage is%s", last)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "COPY" || strings.HasPrefix(fields[1], "--from=") {
			continue
		}
		for _, source := range fields[1 : len(fields)-1] {
			if _, err := os.Stat(filepath.Join(repository, source)); err != nil {
				t.Error(err)
			}
		}
	}
}
