package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// questionsPage lists questions of operators with the commands that answer them, by the situation in
// which they are asked.
const questionsPage = "../../docs/internals/operators-questions.md"

// operatorsQuestion is a row of that page.
type operatorsQuestion struct {
	text, command string
	contains      []string
}

// TestOperatorsQuestions: the commands of the page answer its questions, asked of a tier of three
// processes with Redis, in each situation. An answer names the cause.
func TestOperatorsQuestions(t *testing.T) {
	order, all := readQuestions(t)
	w := newQuestionsTier(t)
	asked := 0
	for _, situation := range order {
		begin, known := situations[situation]
		if !known {
			t.Errorf("%s has a situation %q, which the test cannot bring about", questionsPage, situation)
			continue
		}
		end := begin(t, w)
		for _, q := range all[situation] {
			asked++
			w.ask(t, situation, q)
		}
		end()
	}
	if len(order) != len(situations) {
		t.Errorf("%s has %d situations, the test knows %d", questionsPage, len(order), len(situations))
	}
	if asked < 30 {
		t.Errorf("%s has %d questions, expected 30 or more", questionsPage, asked)
	}
}

var questionRow = regexp.MustCompile("^\\| (.+) \\| `([^`]+)` \\| (.+) \\|$")

// readQuestions returns the situations of the page in order, with their questions.
func readQuestions(t *testing.T) (order []string, all map[string][]operatorsQuestion) {
	t.Helper()
	text, err := os.ReadFile(questionsPage)
	if err != nil {
		t.Fatal(err)
	}
	all = make(map[string][]operatorsQuestion)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "## "); is {
			order = append(order, name)
		}
		m := questionRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		q := operatorsQuestion{text: m[1], command: m[2]}
		for part := range strings.SplitSeq(m[3], " · ") {
			q.contains = append(q.contains, strings.Trim(part, "`"))
		}
		last := order[len(order)-1]
		all[last] = append(all[last], q)
	}
	return order, all
}

// questionsTier is a tier of three processes with Redis, a control plane and clients.
type questionsTier struct {
	dir     string
	plane   *xdstest.ControlPlane
	redis   *redistest.Server
	nodes   map[string]*program
	clients map[string]string // addresses of nodes for clients
	admin   map[string]string
}

const questionsNodes = "abc"

// questionPatience is how long a situation may need until the answers name it.
const questionPatience = 20 * time.Second

func newQuestionsTier(t *testing.T) *questionsTier {
	t.Helper()
	w := &questionsTier{
		dir: t.TempDir(), plane: xdstest.NewControlPlane(t, nil), redis: redistest.Start(t, redistest.Config{}),
		nodes: make(map[string]*program), clients: make(map[string]string), admin: make(map[string]string),
	}
	w.setShop(t, "v1", time.Second)
	w.plane.SetSnapshot(t, "edge", "v1", xdstest.Cluster("edge-a", time.Second))
	w.setBulk(t, "v1", 10)
	w.write(t, "node.json", `{"id": "new", "cluster": "shop"}`)
	token := w.write(t, "token", "a-secret-of-all-nodes-of-the-tier\n")
	for i, name := range strings.Split(questionsNodes, "") {
		at := func(port int) string { return net.JoinHostPort(hostOf(os.Getpid()), strconv.Itoa(port+i)) }
		w.clients[name], w.admin[name] = at(18000), at(19000)
		peer := at(18500)
		w.write(t, name+".yaml", fmt.Sprintf(`node: {name: %s}
listener: {address: %q}
admin: {address: %q}
upstream: {addresses: [%q], backoff: {initial: 100ms, max: 200ms}}
removal_guard: {max_percent: 50, hold: 10m}
log: {level: info}
tier:
  redis: {url: "redis://%s", timeout: 200ms}
  lease: 3s
  peer: {address: %q, token_file: %q}
`, name, w.clients[name], w.admin[name], w.plane.Addr(), w.redis.Addr(), peer, token))
		w.nodes[name] = startProgram(t, "run", "-c", filepath.Join(w.dir, name+".yaml"))
	}
	for i, c := range []struct {
		id, key string
		variant xdstest.Variant
		nack    func(*xdstest.Frame) string
		before  func(context.Context, *xdstest.Frame)
		names   []string
	}{
		{"web-sotw", "shop", xdstest.SotW, nil, nil, nil},
		{"web-delta", "shop", xdstest.Delta, nil, nil, nil},
		{"picky", "shop", xdstest.Delta, func(f *xdstest.Frame) string { return w.rejects(f) }, nil, nil},
		{"stuck", "shop", xdstest.SotW, nil, w.stalls, nil},
		{"edge-1", "edge", xdstest.Delta, nil, nil, nil},
		{"bulk-client", "bulk", xdstest.Delta, nil, nil, nil},
	} {
		node := string(questionsNodes[i%2]) // c has none: it dies later
		client := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: w.clients[node], Variant: c.variant, Node: xdstest.Node(c.id, c.key), Nack: c.nack, BeforeAck: c.before})
		client.Subscribe(xdstest.ClusterType, c.names...)
	}
	return w
}

// hostOf is an address of loopback that no other process uses, so that ports on it are free.
func hostOf(pid int) string {
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, max(pid&255, 1))
}

func (w *questionsTier) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// setShop sets the clusters of the key shop; the timeout of one of them makes a version.
func (w *questionsTier) setShop(t *testing.T, version string, timeout time.Duration) {
	t.Helper()
	w.plane.SetSnapshot(t, "shop", version, xdstest.Cluster("shop-a", timeout), xdstest.Cluster("shop-b", time.Second),
		xdstest.Endpoints("shop-a", "127.0.0.1:1"), xdstest.Endpoints("shop-b", "127.0.0.1:2"))
}

func (w *questionsTier) setBulk(t *testing.T, version string, count int) {
	t.Helper()
	var all []proto.Message
	for i := range count {
		all = append(all, xdstest.Cluster(fmt.Sprintf("bulk-%d", i), time.Second))
	}
	w.plane.SetSnapshot(t, "bulk", version, all...)
}

// timeoutOf is the connect timeout of shop-a in a response; 0 if the cluster is not in it.
func timeoutOf(f *xdstest.Frame) time.Duration {
	for _, r := range f.Resources {
		if r.Name == "shop-a" {
			cluster := &clusterv3.Cluster{}
			if r.Body.UnmarshalTo(cluster) != nil {
				return 0
			}
			return cluster.GetConnectTimeout().AsDuration()
		}
	}
	return 0
}

// rejects is the answer of a client that rejects one version of shop-a.
func (w *questionsTier) rejects(f *xdstest.Frame) string {
	if timeoutOf(f) == rejectedTimeout {
		return "no such filter"
	}
	return ""
}

// stalls does not answer one version of shop-a.
func (w *questionsTier) stalls(ctx context.Context, f *xdstest.Frame) {
	if timeoutOf(f) == stalledTimeout {
		<-ctx.Done()
	}
}

const rejectedTimeout, stalledTimeout = 3 * time.Second, 4 * time.Second

// situations are the situations of the page: each function begins one, and returns what ends it.
var situations = map[string]func(*testing.T, *questionsTier) (end func()){
	"All is well":       func(*testing.T, *questionsTier) func() { return func() {} },
	"An update arrives": func(t *testing.T, w *questionsTier) func() { w.setShop(t, "v2", 2*time.Second); return func() {} },
	"A client rejects an update": func(t *testing.T, w *questionsTier) func() {
		w.setShop(t, "v3", rejectedTimeout)
		return func() {}
	},
	"A client does not answer": func(t *testing.T, w *questionsTier) func() {
		w.setShop(t, "v4", stalledTimeout)
		return func() {}
	},
	"A client asks for what does not exist": func(t *testing.T, w *questionsTier) func() {
		c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: w.clients["b"], Variant: xdstest.Delta, Node: xdstest.Node("lost", "edge")})
		c.Subscribe(xdstest.ClusterType, "not-there")
		return func() {}
	},
	"The control plane is unreachable": func(t *testing.T, w *questionsTier) func() {
		w.plane.Stop()
		return func() {
			if err := w.plane.Start(); err != nil {
				t.Fatal(err)
			}
		}
	},
	"The control plane loses most resources": func(t *testing.T, w *questionsTier) func() { w.setBulk(t, "v2", 1); return func() {} },
	"Redis is unreachable": func(_ *testing.T, w *questionsTier) func() {
		w.redis.Kill()
		return w.redis.Start
	},
	"A node dies": func(t *testing.T, w *questionsTier) func() {
		if err := w.nodes["c"].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		w.nodes["c"].wait(t)
		return func() {}
	},
	"A configuration is wrong": func(t *testing.T, w *questionsTier) func() {
		good, err := os.ReadFile(filepath.Join(w.dir, "a.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, "new.yaml", string(good)+"aggregation: {rules: [{name: one, key: \"'all'\"}]}\n")
		wrong := strings.Replace(string(good), "level: info", "level: loud", 1)
		w.write(t, "wrong.yaml", wrong)
		w.write(t, "a.yaml", wrong)
		return func() {}
	},
}

// ask runs the command of a question until the answer contains what it should, at any node.
func (w *questionsTier) ask(t *testing.T, situation string, q operatorsQuestion) {
	t.Helper()
	t.Chdir(w.dir)
	line := strings.NewReplacer("RELAY", w.clients["b"], "CONTROL_PLANE", w.plane.Addr()).Replace(q.command)
	calls := callsOf(line)
	if len(calls) != 1 {
		t.Errorf("%s: %q is not one call of xdsrelay", questionsPage, q.command)
		return
	}
	env := []string{config.CLIAdmin + "=" + w.admin["b"], "HOME=" + w.dir}
	var text string
	var missing []string
	for deadline := time.Now().Add(questionPatience); ; {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
		code := run(ctx, calls[0], env, &out, &out)
		cancel()
		text, missing = fmt.Sprintf("%s\nexit code %d", out.String(), code), nil
		for _, part := range q.contains {
			if !strings.Contains(text, part) {
				missing = append(missing, part)
			}
		}
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the state of processes cannot be waited for in another way
	}
	if len(missing) > 0 {
		t.Errorf("%s: %s\n%s lacks %q in\n%s", situation, q.text, q.command, missing, text)
	}
}
