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

// headsAgree is how long a node may differ from the tier heads: they are compared every few
// seconds.
const headsAgree = 15 * time.Second

// atRest judges what nodes say of themselves and of the clients.
func (j *judge) atRest() {
	for _, n := range j.world.nodes {
		if n.relay == nil {
			continue
		}
		if err := n.relay.Ready(); err != nil {
			j.world.contradict("Status", fmt.Sprintf("node %s is not ready at rest: %v", n.name, err))
		}
		wrong := n.relay.Check()
		for range int(headsAgree / tick) {
			if len(wrong) == 0 || len(j.world.found) > 0 {
				break
			}
			j.world.sleep(tick)
			wrong = n.relay.Check()
		}
		for _, text := range wrong {
			j.world.contradict("Consistent", fmt.Sprintf("node %s: %s", n.name, text))
		}
		j.status(n)
	}
}

// status compares what a node says of the clients with what they are.
func (j *judge) status(n *node) {
	said := make(map[string]string) // the node of each client
	for next := ""; ; {
		var page statusPage
		if err := j.world.get(n, "/api/v1/clients?limit=500&page="+next, &page); err != nil {
			j.world.contradict("Status", fmt.Sprintf("node %s: %v", n.name, err))
			return
		}
		for _, s := range page.Silent {
			if j.running(s.Node) { // one that has ended may be named for a while
				j.world.contradict("Status", fmt.Sprintf("node %s says at rest that node %s is silent: %s", n.name, s.Node, s.Error))
			}
		}
		for _, c := range page.Clients {
			said[c.Name] = c.Node
			for _, t := range c.Types {
				if t.State != "SYNCED" {
					j.world.contradict("Status", fmt.Sprintf("node %s says that %s of client %s is %s at rest", n.name, t.URL, c.Name, t.State))
				}
				if have := j.world.versionOf(c.Name, t.URL); have != "" && t.Version != "" && t.Version != have {
					j.world.contradict("Status", fmt.Sprintf("node %s says that client %s has version %q of %s; it has %q", n.name, c.Name, t.Version, t.URL, have))
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
			j.world.contradict("Status", fmt.Sprintf("node %s says that client %s is at %s; it is away", n.name, name, at))
		case !c.away && c.stream != nil && c.stream.node != at:
			j.world.contradict("Status", fmt.Sprintf("node %s says that client %s is at %q; it is at %s", n.name, name, at, c.stream.node))
		}
	}
	if online := j.online(); len(said) > online {
		j.world.contradict("Status", fmt.Sprintf("node %s lists %d clients, and there are %d", n.name, len(said), online))
	}
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

// afterClients judges what is left when all clients have gone.
func (j *judge) afterClients() {
	const slack = 16 // connections that come and go
	for deadline := time.Now().Add(patience); ; {
		j.world.sleep(10 * time.Second)
		now := runtime.NumGoroutine()
		if now <= j.baseline+slack || len(j.world.found) > 0 {
			return
		}
		if time.Now().After(deadline) {
			j.world.contradict("Memory", fmt.Sprintf("%d goroutines %s after all clients have gone, %d before there were any", now, patience, j.baseline))
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
	host := w.network.memory.NewHost("operator", "127.1.255.1")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return host.Dial(ctx, addr)
	}}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.at(adminPort)+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return json.Unmarshal(text, into)
}
