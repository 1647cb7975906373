package verify

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// patience is how long a pod may take for what takes it moments, on a machine with much
// else to do.
const patience = time.Minute

// objectData is what ConfigMaps and Secrets hold, by their name and key.
type objectData map[string]map[string]string

// pod is a container that runs as its manifest says: its image's root, which cannot be
// written, with its volumes in it, its user, arguments and environment, and a network
// with its address.
type pod struct {
	t       *testing.T
	name    string
	spec    core.PodSpec
	net     *network
	address string
	root    string
	version int // of its volumes, counted
	cmd     *exec.Cmd
	ended   chan struct{} // closed after err is set
	err     error

	mu sync.Mutex
	// Guarded by mu.
	log bytes.Buffer
}

// startPod starts a pod in a network, in which hosts have names.
func startPod(t *testing.T, n *network, name string, spec core.PodSpec, data objectData, hosts map[string]string) *pod {
	t.Helper()
	namespace, address := n.place()
	p := &pod{t: t, name: name, spec: spec, net: n, address: address, root: t.TempDir(), ended: make(chan struct{})}
	p.fill(data, hosts)
	c := spec.Containers[0]
	if len(c.Command) > 0 {
		t.Fatalf("%s replaces the image's program by %q", name, c.Command)
	}
	user, group := strconv.FormatInt(*spec.SecurityContext.RunAsUser, 10), strconv.FormatInt(*spec.SecurityContext.RunAsGroup, 10)
	const script = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && user="$1" && shift && exec chroot --userspec="$user" "$0" /xdsrelay "$@"`
	p.cmd = exec.Command("ip", append([]string{"netns", "exec", namespace, "unshare", "--mount", "sh", "-c", script, p.root, user + ":" + group}, c.Args...)...)
	p.cmd.Env = p.environment(data)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		if t.Failed() {
			t.Logf("%s said\n%s", name, p.said())
		}
	})
	return p
}

// fill makes the root: the program, and what is mounted below it.
func (p *pod) fill(data objectData, hosts map[string]string) {
	p.t.Helper()
	if err := os.Link(p.net.program, filepath.Join(p.root, "xdsrelay")); err != nil {
		p.t.Fatal(err)
	}
	p.write("/dev/null", nil, 0o666)
	var names strings.Builder
	for host, address := range hosts {
		fmt.Fprintf(&names, "%s %s\n", address, host)
	}
	p.write("/etc/hosts", []byte(names.String()), 0o644)
	for _, m := range p.spec.Containers[0].VolumeMounts {
		for _, v := range p.spec.Volumes {
			if v.Name == m.Name {
				p.mount(m.MountPath, v, data)
			}
		}
	}
	// What TempDir made is for its maker alone.
	for _, dir := range []string{p.root, filepath.Dir(p.root)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
}

// mount makes the files of a volume as a kubelet does: in a folder that links lead to,
// so that all of them can be replaced at once, and for the pod's group.
func (p *pod) mount(dir string, v core.Volume, data objectData) {
	p.t.Helper()
	name, items, mode := "", []core.KeyToPath(nil), os.FileMode(0o644)
	switch {
	case v.ConfigMap != nil:
		name, items = v.ConfigMap.Name, v.ConfigMap.Items
	case v.Secret != nil:
		name, items = v.Secret.SecretName, v.Secret.Items
		mode = os.FileMode(*v.Secret.DefaultMode)
	default:
		p.t.Fatalf("volume %s is of a kind that this does not know", v.Name)
	}
	files := map[string]string{}
	for key, value := range data[name] {
		if items == nil {
			files[key] = value
		}
		for _, item := range items {
			if item.Key == key {
				files[item.Path] = value
			}
		}
	}
	if len(files) == 0 {
		p.t.Fatalf("volume %s: %s does not hold %v", v.Name, name, items)
	}
	group := int(*p.spec.SecurityContext.FSGroup)
	p.version++
	folder := fmt.Sprintf("..%d", p.version)
	for file, value := range files {
		target := p.write(path.Join(dir, folder, file), []byte(value), mode)
		if err := os.Chown(target, 0, group); err != nil {
			p.t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(p.root, dir, file)); err != nil {
			p.link(path.Join(dir, file), path.Join("..data", file))
		}
	}
	p.link(path.Join(dir, "..new"), folder)
	if err := os.Rename(filepath.Join(p.root, dir, "..new"), filepath.Join(p.root, dir, "..data")); err != nil {
		p.t.Fatal(err)
	}
}

// change gives the pod's volumes what ConfigMaps hold now.
func (p *pod) change(data objectData) {
	p.t.Helper()
	for _, m := range p.spec.Containers[0].VolumeMounts {
		for _, v := range p.spec.Volumes {
			if v.Name == m.Name && v.ConfigMap != nil {
				p.mount(m.MountPath, v, data)
			}
		}
	}
}

func (p *pod) write(file string, text []byte, mode os.FileMode) string {
	p.t.Helper()
	target := filepath.Join(p.root, file)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(target, text, mode); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Chmod(target, mode); err != nil { // whatever the umask
		p.t.Fatal(err)
	}
	return target
}

func (p *pod) link(file, to string) {
	p.t.Helper()
	if err := os.Symlink(to, filepath.Join(p.root, file)); err != nil {
		p.t.Fatal(err)
	}
}

// environment is what the container gets: PATH to find nothing else, fields of the pod,
// keys of Secrets, and values, in which earlier ones may be named.
func (p *pod) environment(data objectData) []string {
	p.t.Helper()
	values := map[string]string{"PATH": os.Getenv("PATH")}
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range p.spec.Containers[0].Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
			for name, text := range values {
				value = strings.ReplaceAll(value, "$("+name+")", text)
			}
		case from.FieldRef != nil && from.FieldRef.FieldPath == "status.podIP":
			value = p.address
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			value = p.name
		case from.SecretKeyRef != nil:
			value = data[from.SecretKeyRef.Name][from.SecretKeyRef.Key]
		default:
			p.t.Fatalf("%s comes from %v", e.Name, from)
		}
		values[e.Name] = value
		env = append(env, e.Name+"="+value)
	}
	return env
}

// probe asks what a probe of the pod asks, and returns the status of the answer.
func (p *pod) probe(of *core.Probe) (int, error) {
	return p.get(of.HTTPGet.Port.StrVal, of.HTTPGet.Path)
}

// get asks a port of the pod, by its name.
func (p *pod) get(port, at string) (int, error) {
	res, err := p.net.client().Get("http://" + p.at(port) + at)
	if err != nil {
		return 0, err
	}
	res.Body.Close()
	return res.StatusCode, nil
}

// at is where a port of the pod is, by its name.
func (p *pod) at(port string) string {
	p.t.Helper()
	for _, c := range p.spec.Containers[0].Ports {
		if c.Name == port {
			return net.JoinHostPort(p.address, strconv.Itoa(int(c.ContainerPort)))
		}
	}
	p.t.Fatalf("%s has no port %s", p.name, port)
	return ""
}

// ready waits until the pod is: first for its start, then for what makes it part of its
// Services.
func (p *pod) ready() {
	p.t.Helper()
	c := p.spec.Containers[0]
	for _, of := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		p.eventually("is not well: "+of.HTTPGet.Path, func() bool {
			status, err := p.probe(of)
			return err == nil && status == http.StatusOK
		})
	}
}

// exec runs the program in the pod, as kubectl exec does.
func (p *pod) exec(args ...string) (string, error) {
	p.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(p.cmd.Process.Pid), "--net", "--mount", "--root", "/xdsrelay"}, args...)...)
	cmd.Env = p.cmd.Env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// terminate ends the pod as a kubelet does, but for the pause before, and holds that it
// ends by itself.
func (p *pod) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.eventually("does not end", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if p.err != nil {
		p.t.Errorf("%s ended with %v", p.name, p.err)
	}
}

// eventually waits for what has to become true.
func (p *pod) eventually(otherwise string, is func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s %s\n%s", p.name, otherwise, p.said())
		}
		select {
		case <-p.ended:
			if p.err != nil {
				p.t.Fatalf("%s ended with %v\n%s", p.name, p.err, p.said())
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Write takes what the pod says.
func (p *pod) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (p *pod) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}
