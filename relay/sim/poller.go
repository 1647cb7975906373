package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/robust/origin"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// poller is a client that polls one type. Its polls on one connection count as a stream, which begins
// with the first answer and ends with a poll that fails.
type poller struct {
	// Fixed.
	fleet     *fleet
	name, key string
	typeURL   string
	names     []string // none means all
	addrs     []string // of the nodes
	client    *http.Client
	end       context.CancelFunc
	ended     chan struct{}
	orders    chan order

	mu     sync.Mutex
	cancel context.CancelFunc // guarded by mu: of the poll that is under way; nil for none
	wrong  []string           // guarded by mu

	away bool // the world's goroutine's

	// Of the client's goroutine.
	at      int       // which node is polled
	stream  int       // 0 for none
	conn    net.Conn  // of the last answer
	version string    // of the last answer
	unmet   time.Time // since when the node has nothing to say; zero if it has
}

// order is what a poller is to do.
type order int

const (
	moves   order = iota // poll another node
	leaves               // poll no more
	returns              // poll again
)

const (
	pollPause = time.Second // between two polls
	// pollTimeout bounds a poll: longer than an answer takes on any network that is only slow.
	pollTimeout = 15 * time.Second
	// pollPatience is for how long a poller stays at a node that has nothing to say: longer than
	// nodes take to ask one another.
	pollPatience = servedWithin + 2*time.Second
)

// addPoller adds a polling client; each type has its turn.
func (f *fleet) addPoller(key string) {
	w, i := f.world, len(f.pollers)
	typeURL := origin.Types[i%len(origin.Types)]
	p := &poller{fleet: f, name: fmt.Sprintf("poll-%d", i), key: key, typeURL: typeURL, ended: make(chan struct{}), orders: make(chan order, 100)}
	if !xdstest.FullState(typeURL) {
		p.names = origin.Universe(typeURL, w.plan.Size)
	}
	for _, n := range w.nodes {
		p.addrs = append(p.addrs, n.at(pollPort))
	}
	random := rand.New(rand.NewPCG(w.plan.Seed, 1_000_000+uint64(i)))
	random.Shuffle(len(p.addrs), func(a, b int) { p.addrs[a], p.addrs[b] = p.addrs[b], p.addrs[a] })
	w.to.Add(record.Event{Kind: record.ClientNew, Client: p.name, Key: key, Wants: map[string][]string{typeURL: p.names}})
	host := w.network.memory.NewHost(clientsHost, fmt.Sprintf("127.2.%d.%d", i/250, 1+i%250))
	p.client = &http.Client{Transport: transportOn(host), Timeout: pollTimeout}
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	f.pollers = append(f.pollers, p)
	go p.run(ctx, rand64(random, pollPause))
}

// transportOn makes the HTTP connections of a machine.
func transportOn(host *xdstest.Host) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return host.Dial(ctx, addr) }}
}

// order makes the poller do something; a poll that is under way ends.
func (p *poller) order(o order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders <- o
	if p.cancel != nil {
		p.cancel()
	}
}

func (p *poller) close() {
	p.end()
	<-p.ended
}

// violations are the answers that contradict the protocol.
func (p *poller) violations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrong)
}

func (p *poller) violation(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context, first time.Duration) {
	defer close(p.ended)
	defer p.client.CloseIdleConnections()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for away := false; ; {
		select {
		case <-ctx.Done():
			return
		case o := <-p.orders:
			away = o == leaves || away && o == moves
			p.leave("", true)
			timer.Reset(pollPause)
			continue
		case <-timer.C:
		}
		if !away {
			p.poll(ctx)
		}
		timer.Reset(pollPause)
	}
}

// leave ends what counts as a stream, if there is one, and turns to the next node.
func (p *poller) leave(why string, own bool) {
	if p.stream != 0 {
		p.note(record.Event{Kind: record.ClientEnd, Own: own, Why: why})
	}
	p.stream, p.unmet, p.at = 0, time.Time{}, (p.at+1)%len(p.addrs)
}

// note records what the poller sees.
func (p *poller) note(e record.Event) {
	e.Client, e.Key, e.Stream, e.Node = p.name, p.key, p.stream, p.fleet.nameOf(p.addrs[p.at])
	p.fleet.world.to.Add(e)
}

// poll polls once.
func (p *poller) poll(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	if len(p.orders) > 0 {
		p.mu.Unlock()
		return
	}
	p.cancel = cancel
	p.mu.Unlock()
	var conn net.Conn
	code, body, err := p.ask(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn }}))
	p.mu.Lock()
	p.cancel = nil
	p.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return // an order, or the end
	case err != nil:
		p.leave(err.Error(), false)
		return
	case conn != p.conn && p.stream != 0: // the node closed the other one, or was restarted
		p.note(record.Event{Kind: record.ClientEnd, Own: true, Why: "another connection"})
		fallthrough
	case p.stream == 0:
		p.conn, p.stream = conn, p.fleet.world.to.Stream()
		p.note(record.Event{Kind: record.ClientOpen})
	}
	switch {
	case code == http.StatusOK:
		p.take(body)
	case code == http.StatusNotModified && p.version == "":
		p.violation("304 for a client that has nothing")
	case code == http.StatusNotModified:
	case code != http.StatusServiceUnavailable || p.version != "": // it keeps what it has, and loses the node
		p.leave(fmt.Sprintf("status %d: %s", code, body), false)
	case p.unmet.IsZero():
		p.unmet = time.Now()
	case time.Since(p.unmet) >= pollPatience:
		p.leave("nothing to say", true)
	}
}

// ask sends a poll, and returns the answer.
func (p *poller) ask(ctx context.Context) (code int, body []byte, err error) {
	text, err := protojson.Marshal(&discoveryv3.DiscoveryRequest{Node: xdstest.Node(p.name, p.key), VersionInfo: p.version, ResourceNames: p.names})
	if err != nil {
		return 0, nil, err
	}
	url := "http://" + p.addrs[p.at] + resource.TypeOf(p.typeURL).Service.REST
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header["X-Idempotency-Key"] = nil // not sent: a connection that ended meanwhile is replaced
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// take records an answer with content.
func (p *poller) take(body []byte) {
	var got discoveryv3.DiscoveryResponse
	err := protojson.Unmarshal(body, &got)
	var frame *xdstest.Frame
	if err == nil {
		frame, err = xdstest.FrameOf(&got)
	}
	if err == nil && (got.GetVersionInfo() == "" || got.GetVersionInfo() == p.version) {
		err = errors.New("200 without a new version")
	}
	if err != nil {
		p.violation("%v: %s", err, body)
		return
	}
	p.version, p.unmet = got.GetVersionInfo(), time.Time{}
	p.note(record.Event{Kind: record.ClientGot, Type: p.typeURL, Version: p.version, Resources: origin.Resources(frame)})
}
