package verify

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	core "k8s.io/api/core/v1"
)

const composeDir = "../compose"

// composeProject reads the files as Docker Compose does.
func composeProject(t *testing.T, environment types.Mapping, files ...string) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(composeDir)
	if err != nil {
		t.Fatal(err)
	}
	details := types.ConfigDetails{WorkingDir: dir, Environment: environment}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		details.ConfigFiles = append(details.ConfigFiles, types.ConfigFile{Filename: filepath.Join(dir, file), Content: text})
	}
	project, err := loader.LoadWithContext(t.Context(), details)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// composeTLS reads the files with TLS, with certificates of the script for them.
func composeTLS(t *testing.T) *types.Project {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("sh", composeDir+"/certificates.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("certificates.sh: %v\n%s", err, out)
	}
	return composeProject(t, types.Mapping{"TLS_DIR": dir}, "compose.yaml", "compose.tls.yaml")
}

// TestCompose: Docker Compose accepts the files, the program accepts what its services are
// started with, and the mounted files exist.
func TestCompose(t *testing.T) {
	for name, project := range map[string]*types.Project{
		"plaintext": composeProject(t, types.Mapping{}, "compose.yaml"),
		"TLS":       composeTLS(t),
	} {
		t.Run(name, func(t *testing.T) { checkProject(t, project) })
	}
}

func checkProject(t *testing.T, project *types.Project) {
	t.Helper()
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
				t.Errorf("%s opens port %s to other machines", s.Name, p.Published)
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

// TestComposeTLS: with TLS, no service has a plaintext port for clients, relays or Redis.
func TestComposeTLS(t *testing.T) {
	for _, s := range composeTLS(t).Services {
		arguments := strings.Join(s.Command, " ")
		for _, v := range s.Volumes {
			if filepath.Ext(v.Source) != ".yaml" {
				continue
			}
			text, err := os.ReadFile(v.Source)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "plaintext") || strings.Contains(string(text), "redis://") {
				t.Errorf("%s: %s is not for TLS", s.Name, v.Source)
			}
			arguments += string(text)
		}
		for image, want := range map[string]string{"redis:": "--port 0 --tls-port 6379", "xdsrelay:": "/etc/xdsrelay/tls/ca.crt", "envoyproxy/": "/etc/envoy/tls/ca.crt"} {
			if strings.HasPrefix(s.Image, image) && !strings.Contains(arguments, want) {
				t.Errorf("%s runs without %s: %s", s.Name, want, arguments)
			}
		}
		if strings.Contains(arguments, "--plaintext") {
			t.Errorf("%s runs with plaintext: %s", s.Name, arguments)
		}
	}
}

// checkService lets the program check what a service runs with.
func checkService(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.StopGracePeriod == nil || s.StopGracePeriod.String() != "45s" {
		t.Errorf("%s: read-only %v, drops %v, grace period %v", s.Name, s.ReadOnly, s.CapDrop, s.StopGracePeriod)
	}
	if s.Command[0] != "run" {
		t.Fatalf("%s runs %q", s.Name, s.Command)
	}
	byLength := slices.SortedFunc(slices.Values(s.Volumes), func(a, b types.ServiceVolumeConfig) int { return len(b.Target) - len(a.Target) })
	here := func(text string) string {
		for _, v := range byLength { // /etc/xds also begins /etc/xdsrelay
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

// TestComposeTLSRuns starts Redis, the control plane and the relays of the files with TLS, each
// in its own network namespace: the relays connect to each other, to the control plane and to
// Redis, and accept a client with a certificate, but none without.
func TestComposeTLSRuns(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "192.0.2.0/24")
	project := composeTLS(t)
	hosts, next := map[string]string{}, n.last
	order := []string{"redis", "control-plane", "relay-a", "relay-b"}
	for _, name := range order { // place assigns addresses in this order
		next = next.Next()
		hosts[name] = next.String()
	}
	startComposeRedis(t, n, project.Services["redis"])
	pods := map[string]*pod{}
	for _, name := range order[1:] {
		spec, data := podOfService(t, project, project.Services[name])
		pods[name] = startPod(t, n, name, spec, data, hosts)
	}
	a := pods["relay-a"]
	a.eventually("does not see the other relay", func() bool {
		out, err := a.exec("nodes")
		return err == nil && strings.Contains(out, "relay-b") && strings.Contains(out, "relay-a")
	})
	if out, err := a.exec("config", "validate", "--config", "/etc/xdsrelay/relay.yaml", "--connect"); err != nil || strings.Contains(out, "warning:") {
		t.Errorf("%v\n%s", err, out)
	}
	connect := []string{"config", "validate", "--config", "/dev/null", "--connect", "--upstream", "relay-b:18000", "--upstream-tls-ca", "/etc/xdsrelay/tls/ca.crt"}
	client := pods["control-plane"] // it has no settings of a relay in its environment
	if out, err := client.exec(append(connect, "--upstream-tls-cert", "/etc/xdsrelay/tls/tls.crt", "--upstream-tls-key", "/etc/xdsrelay/tls/tls.key")...); err != nil {
		t.Errorf("with a certificate: %v\n%s", err, out)
	}
	if out, err := client.exec(connect...); err == nil {
		t.Errorf("a client without a certificate connects\n%s", out)
	}
}

// startComposeRedis starts the command of the service.
func startComposeRedis(t *testing.T, n *network, s types.ServiceConfig) {
	t.Helper()
	namespace, _ := n.place()
	args := []string{"netns", "exec", namespace}
	for _, arg := range s.Command {
		args = append(args, strings.Replace(arg, s.Volumes[0].Target+"/", s.Volumes[0].Source+"/", 1))
	}
	// The image sets these two.
	cmd := exec.Command("ip", append(args, "--protected-mode", "no", "--dir", t.TempDir())...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}

// podOfService returns a service as a pod, with the content of its volumes and secrets.
func podOfService(t *testing.T, project *types.Project, s types.ServiceConfig) (core.PodSpec, objectData) {
	t.Helper()
	user := int64(65532)
	c := core.Container{Args: s.Command}
	for name, value := range s.Environment {
		c.Env = append(c.Env, core.EnvVar{Name: name, Value: *value})
	}
	spec := core.PodSpec{SecurityContext: &core.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user, FSGroup: &user}}
	data := objectData{}
	add := func(target string, files ...string) {
		name := fmt.Sprintf("volume-%d", len(spec.Volumes))
		data[name] = map[string]string{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			data[name][filepath.Base(file)] = string(text)
		}
		spec.Volumes = append(spec.Volumes, core.Volume{Name: name, VolumeSource: core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{LocalObjectReference: core.LocalObjectReference{Name: name}}}})
		c.VolumeMounts = append(c.VolumeMounts, core.VolumeMount{Name: name, MountPath: target})
	}
	for _, v := range s.Volumes {
		if filepath.Ext(v.Target) == ".yaml" { // a file, by its name in the container
			file := filepath.Join(t.TempDir(), filepath.Base(v.Target))
			text, err := os.ReadFile(v.Source)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			add(filepath.Dir(v.Target), file)
			continue
		}
		files, err := filepath.Glob(v.Source + "/*")
		if err != nil {
			t.Fatal(err)
		}
		add(v.Target, files...)
	}
	for _, secret := range s.Secrets {
		add("/run/secrets", project.Secrets[secret.Source].File)
	}
	spec.Containers = []core.Container{c}
	return spec, data
}

// TestComposeBootstrap: the Envoys' bootstraps are those of the program.
func TestComposeBootstrap(t *testing.T) {
	for file, flags := range map[string][]string{
		"envoy.yaml":     nil,
		"envoy.tls.yaml": {"--ca", "/etc/envoy/tls/ca.crt", "--cert", "/etc/envoy/tls/tls.crt", "--cert-key", "/etc/envoy/tls/tls.key", "--server-name", "relay"},
	} {
		out, err := exec.Command(program, append([]string{"bootstrap", "envoy", "--relay", "relay-a:18000,relay-b:18000", "--node-id", "envoy", "--node-cluster", "demo"}, flags...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(composeDir + "/" + file)
		if err != nil || string(got) != string(out) {
			t.Errorf("%s is not what `xdsrelay bootstrap envoy` prints (%v):\n%s", file, err, out)
		}
	}
}

// TestDockerfile: the files that the Dockerfile copies exist, and its image has no other content,
// no shell, and an unprivileged user.
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
