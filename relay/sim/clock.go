package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
)

// clock is the clock of a machine: the time of day that the node on it gives to others, which may
// be wrong. The process on the machine does not run while it is stopped, so it reads no time.
type clock struct {
	mu sync.Mutex
	// Guarded by mu.
	ahead   time.Duration
	forward time.Time     // when it was last turned forward; zero for never
	stopped map[int]bool  // events that stop the process
	runs    chan struct{} // closed when it runs again; nil while it runs
	since   time.Time     // when it was stopped
	woke    time.Time     // when it last ran again after it was stopped for long; zero for never
}

// now is the time of day. A process that is stopped waits in it: so it does not notice that time
// passes, and does not say that it runs.
func (c *clock) now() time.Time {
	for {
		c.mu.Lock()
		ahead, runs := c.ahead, c.runs
		c.mu.Unlock()
		if runs == nil {
			return time.Now().Add(ahead).Round(0)
		}
		<-runs
	}
}

// turn moves the clock forward, or back.
func (c *clock) turn(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead += by; by > 0 {
		c.forward = time.Now()
	}
}

// lastGap is when the process last found a gap in its time: it was stopped for long, or its clock was
// turned forward, which looks the same to it. It is zero for never.
func (c *clock) lastGap() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forward.After(c.woke) {
		return c.forward
	}
	return c.woke
}

func (c *clock) isAhead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}

// lastWoke is when the process last ran again after it was stopped for long; zero for never.
func (c *clock) lastWoke() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.woke
}

// stop stops the process for an event.
func (c *clock) stop(event int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.stopped, c.runs, c.since = make(map[int]bool), make(chan struct{}), time.Now()
	}
	c.stopped[event] = true
}

// resume lets the process run again once no event stops it.
func (c *clock) resume(event int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.stopped, event); len(c.stopped) == 0 {
		c.runLocked()
	}
}

// replaced lets a process that ends run: the next one on the machine is not stopped.
func (c *clock) replaced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.stopped)
	c.runLocked()
	c.woke = time.Time{}
}

func (c *clock) runLocked() {
	if c.runs != nil {
		close(c.runs)
		c.runs = nil
		if time.Since(c.since) > noticedAfter {
			c.woke = time.Now()
		}
	}
}

// byClock are the acts that need clocks of single nodes. Plans of some seeds have them, beside what
// is drawn for each seed.
var byClock = []struct {
	name   string
	length func(r *rand.Rand) time.Duration
}{
	{"clock", func(r *rand.Rand) time.Duration { return 2*time.Second + rand64(r, 2*time.Minute) }},
	{"clock", duration},
	{"sleep", func(r *rand.Rand) time.Duration { return time.Second + rand64(r, 20*time.Second) }},
	{"sleep", duration},
}

// aClock is a node and by how many seconds its clock is turned: often a few, sometimes minutes.
func aClock(s Setup, r *rand.Rand) []string {
	share := r.Float64()
	seconds := 3 + int(share*share*600)
	if r.IntN(2) == 0 {
		seconds = -seconds
	}
	return append(aNode(s, r), strconv.Itoa(seconds))
}

// addClocks adds clocks that are turned and processes that are stopped, at about the times of other
// events, so that they meet.
func (p *Plan) addClocks(r *rand.Rand) {
	others := slices.Clone(p.Events)
	for range 2 + r.IntN(5) {
		kind := byClock[r.IntN(len(byClock))]
		at := rand64(r, p.Length)
		if len(others) > 0 {
			at = others[r.IntN(len(others))].At + rand64(r, 30*time.Second) - 10*time.Second
		}
		at = round(max(time.Second, min(at, p.Length-time.Second)))
		e := Event{At: at, For: round(min(kind.length(r), p.Length-at)), Do: kind.name, Args: acts[kind.name].draw(p.Setup, r)}
		if p.Events = append(p.Events, e); e.Do == "sleep" && r.IntN(2) == 0 {
			p.addAwakening(r, e)
		}
	}
}

// addAwakening lets the world go on without a process that is stopped: its key changes, the control
// plane does not tell it so soon, and clients that know move to it when it runs again.
func (p *Plan) addAwakening(r *rand.Rand, sleep Event) {
	p.add(sleep.At, min(sleep.For+round(rand64(r, 10*time.Second)), p.Length-sleep.At), "stall", sleep.arg(0), originHost)
	p.add(sleep.At+round(rand64(r, sleep.For)), 0, "change", aKey(p.Setup, r)[0], "6")
	p.add(min(sleep.End()+round(rand64(r, time.Second)), p.Length), 0, "move", "100")
}

// turnClock sets the clock of a node wrong, and right again.
func turnClock(sign int) func(*World, int, Event) {
	return func(w *World, _ int, e Event) {
		if n := w.node(e.arg(0)); n != nil {
			n.clock.turn(time.Duration(sign*e.number(1)) * time.Second)
			w.clocks.turned()
		}
	}
}

// sleepNode stops the process of a node: nothing reaches it, and it does not know that time passes.
func sleepNode(w *World, number int, e Event) {
	pauseNode(w, number, e)
	if n := w.node(e.arg(0)); n != nil && n.relay != nil {
		n.clock.stop(number)
	}
}

// wakeNode lets it run again, when what was sent to it meanwhile has arrived.
func wakeNode(w *World, number int, e Event) {
	healPath(w, number, e)
	if n := w.node(e.arg(0)); n != nil {
		n.clock.resume(number)
	}
}

// clocks judges what nodes say of one another's clocks, and what they do after they were stopped.
type clocks struct {
	world *World
	ever  bool      // any clock was ever turned
	since time.Time // when one was last
	asked time.Time
	// opened is when clients last connected, to whichever node.
	opened map[string]time.Time
}

func newClocks(w *World) *clocks {
	return &clocks{world: w, opened: make(map[string]time.Time)}
}

func (c *clocks) turned() { c.ever, c.since = true, time.Now() }

const (
	// comparedWithin is longer than nodes take to compare their clocks.
	comparedWithin = 20 * time.Second
	// mostSkew is by how much clocks may differ.
	mostSkew = 2 * time.Second
)

// noticedAfter is for how long a process did not run that notices.
const noticedAfter = 3 * time.Second

// observe judges a response, before the judge has taken it in: while a node that was stopped for
// long has not had the time to ask, no client that connects to it gets older content than it had
// (K12). The owner of the key, which answers it, may have older content; see [judge.misled].
func (c *clocks) observe(e *record.Event) []check.Contradiction {
	j, at := c.world.judge, time.Now().Add(e.At-c.world.to.Since())
	if e.Kind == record.ClientOpen {
		c.opened[e.Client] = at
	}
	v, n := j.clients[e.Client], c.world.node(e.Node)
	if e.Kind != record.ClientGot || v == nil || n == nil {
		return nil
	}
	woke := n.clock.lastWoke()
	if woke.IsZero() || at.Sub(woke) >= config.Default().Cache.ConfirmTimeout || c.opened[e.Client].Before(woke) {
		return nil
	}
	states := make(map[string]int)
	for _, name := range v.gone(e) {
		states[name] = absent
	}
	for _, r := range e.Resources {
		states[r.Name] = r.Serial
	}
	for name, serial := range states {
		id := resourceID{v.client.Key, e.Type, name}
		if h, had := j.histories[id], v.past[id]; h.find(serial, had) < 0 && h.find(serial, 0) >= 0 && !j.givesBack(e, e.Node, id, had, serial) {
			if j.misled(e.Node) {
				j.counts.Excused++
				return nil
			}
			return found("Woken", e, "client %s is sent back to %s@%d of %s by %s, which was stopped until %s ago",
				e.Client, name, serial, record.ShortType(e.Type), e.Node, at.Sub(woke))
		}
	}
	return nil
}

// look judges at times that all nodes name those whose clocks are wrong, and no other, and that they
// show no negative age.
func (c *clocks) look() {
	w := c.world
	if !c.ever || time.Since(c.asked) < askedEvery || !w.redisWell() || !w.judge.nodesAreCalm() {
		return
	}
	c.asked = time.Now()
	for _, n := range w.nodes {
		if n.relay == nil || time.Since(n.since) < comparedWithin {
			continue
		}
		for _, path := range []string{"/tier/nodes", "/tier/keys"} {
			text, err := w.text(n, path)
			if err != nil {
				w.contradict("Clocks", fmt.Sprintf("node %s does not show %s: %v", n.name, path, err))
				return
			}
			if age := negativeAge(text); age != "" {
				w.contradict("Clocks", fmt.Sprintf("node %s shows a negative age in %s: %q", n.name, path, age))
			}
			if path == "/tier/nodes" && c.settled() {
				c.compare(n, text)
			}
		}
	}
}

// settled reports whether nothing has changed for so long that all nodes have compared their clocks.
func (c *clocks) settled() bool {
	names := []string{redisHost}
	for _, n := range c.world.nodes {
		if names = append(names, n.name); time.Since(n.since) < comparedWithin {
			return false
		}
		if at, ok := c.world.judge.troubled[n.name]; ok && time.Since(at) < comparedWithin {
			return false
		}
	}
	return time.Since(c.since) >= comparedWithin
}

// compare judges which clocks a node says differ.
func (c *clocks) compare(n *node, text string) {
	said, wrong := skewed(text), c.wrong()
	for name, ahead := range wrong {
		if (said[name] - ahead).Abs() > time.Second { // what is less is left out
			c.world.contradict("Clocks", fmt.Sprintf("node %s says that the clock of node %s is ahead by %s, and it is by %s", n.name, name, said[name], ahead))
		}
	}
	for name, ahead := range said {
		if wrong[name] == 0 {
			c.world.contradict("Clocks", fmt.Sprintf("node %s says that the clock of node %s is ahead by %s, and it is right", n.name, name, ahead))
		}
	}
}

// wrong are the running nodes whose clocks differ from the one in the middle, and by how much they
// are ahead.
func (c *clocks) wrong() map[string]time.Duration {
	var all []time.Duration
	for _, n := range c.world.nodes {
		if n.relay != nil {
			all = append(all, n.clock.isAhead())
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	middle, wrong := all[(len(all)-1)/2], make(map[string]time.Duration)
	for _, n := range c.world.nodes {
		if d := n.clock.isAhead() - middle; n.relay != nil && d.Abs() > mostSkew {
			wrong[n.name] = d
		}
	}
	return wrong
}

// skewLine is what a node says of a clock that differs.
var skewLine = regexp.MustCompile(`The clock of node (\S+) is (\S+) (ahead of|behind) node`)

// skewed are the nodes of which a page says that their clocks differ, and by how much they are ahead.
func skewed(page string) map[string]time.Duration {
	all := make(map[string]time.Duration)
	for _, line := range skewLine.FindAllStringSubmatch(page, -1) {
		by, err := time.ParseDuration(line[2])
		if err != nil {
			continue
		}
		if line[3] == "behind" {
			by = -by
		}
		all[line[1]] = by
	}
	return all
}

// minus is a time below zero.
var minus = regexp.MustCompile(`(?:^|\s)-\d[^\s]*`)

// negativeAge is the first age in a page that is negative; empty for none.
func negativeAge(page string) string { return strings.TrimSpace(minus.FindString(page)) }

// text is a page of the admin port of a node, which a machine of its own asks for.
func (w *World) text(n *node, path string) (string, error) {
	transport := transportOn(w.network.memory.NewHost("operator", "127.1.255.2"))
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: time.Minute}
	resp, err := client.Get("http://" + n.at(adminPort) + path) //nolint:noctx // bounded by Timeout
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}
