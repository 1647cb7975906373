package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"time"

	"xdsrelay/relay/admin"
)

// statusPage is what a node says of all clients of the tier, as far as it is compared.
type statusPage struct {
	Clients []struct {
		Name  string `json:"name"`
		Node  string `json:"node"`
		State string `json:"state"`
		Types []struct {
			URL     string `json:"type_url"`
			State   string `json:"state"`
			Version string `json:"version"`
		} `json:"types"`
	} `json:"clients"`
	Next   string `json:"next"`
	Silent []struct {
		Node  string `json:"node"`
		Error string `json:"error"`
	} `json:"silent"`
}

// settled is how long what nodes say may take to be true after the last disturbance: nodes
// look every few seconds for others, and whether they have what tier heads name.
const settled = 15 * time.Second

// untruth is something that a node says at rest and is not so.
type untruth struct{ guarantee, text string }

// atRest judges what nodes say of themselves and of the clients.
func (j *judge) atRest() {
	for _, n := range j.world.nodes {
		if n.relay == nil {
			continue
		}
		said := j.said(n)
		for end := time.Now().Add(settled); len(said) > 0 && len(j.world.found) == 0 && time.Now().Before(end); {
			j.world.sleep(tick)
			said = j.said(n)
		}
		for _, w := range said {
			j.world.contradict(w.guarantee, fmt.Sprintf("node %s %s", n.name, w.text))
		}
	}
}

// said is what a node says now and is not so.
func (j *judge) said(n *node) (all []untruth) {
	if err := n.relay.Ready(); err != nil {
		all = append(all, untruth{"Status", fmt.Sprintf("is not ready at rest: %v", err)})
	}
	for _, text := range n.relay.Check() {
		all = append(all, untruth{"Consistent", "finds: " + text})
	}
	return append(all, j.status(n)...)
}

// status compares what a node says of the clients with what they are.
func (j *judge) status(n *node) (all []untruth) {
	lies := func(format string, args ...any) {
		all = append(all, untruth{"Status", "says at rest " + fmt.Sprintf(format, args...)})
	}
	said := make(map[string]string) // the node of each client
	for next := ""; ; {
		var page statusPage
		if err := j.world.get(n, "/api/v1/clients?limit=500&page="+next, &page); err != nil {
			lies("nothing of the clients: %v", err)
			return all
		}
		for _, s := range page.Silent {
			if j.running(s.Node) { // one that has ended may be named for a while
				lies("that node %s is silent: %s", s.Node, s.Error)
			}
		}
		for _, c := range page.Clients {
			said[c.Name] = c.Node
			for _, t := range c.Types {
				if t.State != "SYNCED" {
					lies("that %s of client %s is %s", t.URL, c.Name, t.State)
				}
				if have := j.world.versionOf(c.Name, t.URL); have != "" && t.Version != "" && t.Version != have {
					lies("that client %s has version %q of %s; it has %q", c.Name, t.Version, t.URL, have)
				}
			}
		}
		if next = page.Next; next == "" {
			break
		}
	}
	for name, c := range j.clients {
		switch at := said[name]; {
		case c.away && at != "":
			lies("that client %s is at %s; it is away", name, at)
		case !c.away && c.stream != nil && c.stream.node != at:
			lies("that client %s is at %q; it is at %s", name, at, c.stream.node)
		}
	}
	if online := j.online(); len(said) > online {
		lies("that there are %d clients, and there are %d", len(said), online)
	}
	return all
}

// online is how many clients there are now.
func (j *judge) online() (n int) {
	for _, c := range j.clients {
		if !c.away {
			n++
		}
	}
	return n
}

// forgetting is how long nodes may go on asking for one that may have crashed, and keep a connection
// to it: longer than they do, which is ten minutes and the time until the connection is closed.
const forgetting = 13 * time.Minute

// afterClients judges what is left when all clients have gone.
func (j *judge) afterClients() {
	// Fewer than the nodes of the smallest tier have for one connection each. A few are those of
	// connections that come and go.
	const slack = 7
	for deadline := time.Now().Add(forgetting); ; {
		j.world.sleep(10 * time.Second)
		now := runtime.NumGoroutine()
		if now <= j.baseline+slack || len(j.world.found) > 0 {
			return
		}
		if time.Now().After(deadline) {
			j.world.contradict("Memory", fmt.Sprintf("%d goroutines %s after all clients have gone, %d before there were any", now, forgetting, j.baseline))
			return
		}
	}
}

// versionOf is the version that a client of the state of the world has; empty for others.
func (w *World) versionOf(name, typeURL string) string {
	for _, c := range w.fleet.clients {
		if c.name == name && !c.delta {
			return c.Version(typeURL)
		}
	}
	return ""
}

// redisWell reports whether Redis does what it should.
func (w *World) redisWell() bool { return w.redis.host != nil && w.redis.ill == 0 }

// get asks the admin port of a node, from a machine of its own.
func (w *World) get(n *node, path string, into any) error {
	text, err := w.call(n, http.MethodGet, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// call sends a request to the admin port of a node, from a machine of its own.
func (w *World) call(n *node, method, path string) ([]byte, error) {
	host := w.network.memory.NewHost("operator", "127.1.255.1")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return host.Dial(ctx, addr)
	}}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.at(adminPort)+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set(admin.RequestHeader, "simulation")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return text, err
}
