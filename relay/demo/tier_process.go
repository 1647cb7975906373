package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// process is a program that runs beside this one.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has exited

	mu   sync.Mutex
	text string // guarded by mu: the last line that it wrote
}

// startProcess starts a program. line gets each line that it writes to out, which is one of
// its outputs.
func startProcess(cmd *exec.Cmd, out io.Reader, line func(string)) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	dieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		lines := bufio.NewReader(out)
		for {
			text, err := lines.ReadString('\n')
			if text = strings.TrimSpace(text); text != "" {
				p.mu.Lock()
				p.text = text
				p.mu.Unlock()
				line(text)
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // it is killed in the end
	}()
	return p, nil
}

// kill ends it at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails where it has exited
	<-p.done
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// last is the last line that it wrote.
func (p *process) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}

// relayProcess is a relay.
type relayProcess struct {
	*process

	name, addr, admin string
}

const startTime = time.Minute // that a process may take to start

// startRelay starts a relay and waits until it serves. join is its section tier.
func startRelay(command func(...string) *exec.Cmd, dir, name, origin, join string) (*relayProcess, error) {
	file := filepath.Join(dir, name+".yaml")
	text := fmt.Sprintf(`node: {name: %s}
listener: {address: "127.0.0.1:0"}
admin: {address: "127.0.0.1:0"}
upstream: {addresses: [%q], backoff: {initial: 100ms, max: 500ms}}
tier: {%s, lease: 3s, balance: {enabled: false}}
drain: {duration: 0s, grace: 1s}
log: {format: json}
`, name, origin, join)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := command("run", "-c", file)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	n := &relayProcess{name: name}
	serving := make(chan [2]string, 1)
	if n.process, err = startProcess(cmd, out, func(text string) {
		var said struct{ Msg, XDS, Admin string }
		if json.Unmarshal([]byte(text), &said) == nil && said.Msg == "serving" {
			select {
			case serving <- [2]string{said.XDS, said.Admin}:
			default:
			}
		}
	}); err != nil {
		return nil, fmt.Errorf("demo: relay %s: %w", name, err)
	}
	select {
	case at := <-serving:
		n.addr, n.admin = at[0], at[1]
		return n, nil
	case <-n.done:
		err = errors.New("it has exited")
	case <-time.After(startTime):
		err = errors.New("it does not serve")
	}
	n.kill()
	return nil, fmt.Errorf("demo: relay %s: %w: %s", name, err, n.last())
}

// ask reads a page of its admin port.
func (n *relayProcess) ask(path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+path+"?format=json", nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

// members is how many relays it knows, itself among them.
func (n *relayProcess) members() int {
	var now admin.NodesNow
	if n.ask("/tier/nodes", &now) != nil {
		return 0
	}
	return len(now.Members.Members)
}

// owner is the relay that owns a key, empty where it cannot be found out.
func (n *relayProcess) owner(key string) string {
	var all ops.Keys
	if n.ask("/tier/keys", &all) != nil {
		return ""
	}
	for _, k := range all.Keys {
		if k.Key == key {
			return k.Owner
		}
	}
	return ""
}

// portTries is how often relays are started that know one another from a list: of its ports,
// which were free, another program may take one before its relay does.
const portTries = 5

// startRelays starts all relays.
func (d *tier) startRelays() error {
	for try := 1; ; try++ {
		err := d.tryRelays()
		if err == nil || d.redis != nil || try == portTries {
			return err
		}
		for _, n := range d.nodes {
			n.kill()
		}
		d.nodes = nil
	}
}

func (d *tier) tryRelays() error {
	join := func(int) string {
		return fmt.Sprintf(`redis: {url: %q}, peer: {address: "127.0.0.1:0"}`, "unix://"+d.socket())
	}
	if d.redis == nil {
		var err error
		if join, err = d.list(); err != nil {
			return err
		}
	}
	for i := range d.cfg.Nodes {
		n, err := startRelay(d.cfg.Command, d.dir, nodeName(i), d.control.addr, join(i))
		if err != nil {
			return err
		}
		d.nodes = append(d.nodes, n)
	}
	return nil
}

// socket is where Redis listens.
func (d *tier) socket() string { return filepath.Join(d.dir, "redis.sock") }

// startRedis starts Redis and waits until it accepts connections.
func (d *tier) startRedis() error {
	cmd := exec.CommandContext(context.Background(), d.cfg.Redis, "--port", "0", "--unixsocket", d.socket(), "--save", "", "--appendonly", "no", "--dir", d.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	var once sync.Once
	if d.redis, err = startProcess(cmd, out, func(text string) {
		if strings.Contains(text, "eady to accept connections") {
			once.Do(func() { close(ready) })
		}
	}); err != nil {
		return fmt.Errorf("demo: %s: %w", d.cfg.Redis, err)
	}
	select {
	case <-ready:
	case <-d.redis.done:
		return fmt.Errorf("demo: %s has exited: %s", d.cfg.Redis, d.redis.last())
	case <-time.After(startTime):
		return fmt.Errorf("demo: %s does not accept connections: %s", d.cfg.Redis, d.redis.last())
	}
	return nil
}

// list is what the section tier of each relay says where there is no Redis: each has a peer
// port that was free a moment ago.
func (d *tier) list() (join func(i int) string, err error) {
	var ports, members []string
	var listeners []net.Listener
	defer func() { // all at once, so that they are different ones
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	for i := range d.cfg.Nodes {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		ports = append(ports, l.Addr().String())
		members = append(members, fmt.Sprintf("%q", nodeName(i)+"="+ports[i]))
	}
	return func(i int) string {
		return fmt.Sprintf("nodes: [%s], peer: {address: %q}", strings.Join(members, ", "), ports[i])
	}, nil
}
