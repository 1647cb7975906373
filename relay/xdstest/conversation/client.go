package conversation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/emptypb"

	"xdsrelay/relay/xdstest"
)

// client is one client of a script: what it speaks, where it is connected, and
// what a well-behaved client would remember.
type client struct {
	r        *run
	name     string
	down     string // how it speaks: one of downs
	server   string
	node     *corev3.Node
	holdAcks bool
	maxFrame int // bytes; 0 for any size

	conn     *xdstest.Conn
	connAddr string
	streams  map[string]*stream // by type URL; "" is ADS
}

// stream is one stream of a client.
type stream struct {
	*xdstest.Stream
	delta  bool
	spoken bool // the node was sent
	nonces map[string]bool
	topics map[string]*topic
}

// topic is what a client remembers of one type on a stream.
type topic struct {
	asked   bool     // a request was sent
	names   []string // as sent; on delta what is subscribed
	legacy  bool     // no request had names so far, and the type takes that as *
	nonce   string   // of the newest frame that was answered
	version string   // of the frame last acknowledged

	held    map[string]holding // by name: what was acknowledged
	shown   map[string]holding // held, and what was taken without an answer
	gone    map[string]bool    // delta: what it was last told of a name is that it does not exist
	waiting *xdstest.Frame     // taken, and not answered yet
	last    *xdstest.Frame     // the newest that was taken
}

// holding is a resource that a client has.
type holding struct{ tag, version string }

// client finds a client or lets it enter.
func (r *run) client(name string) *client {
	c := r.clients[name]
	if c == nil {
		c = &client{
			r: r, name: name, down: r.combination.down, server: r.firstServer(),
			node: xdstest.Node(name, "test-cluster"), streams: make(map[string]*stream),
		}
		r.clients[name] = c
	}
	return c
}

func (r *run) firstServer() string {
	if _, ok := r.servers["relay"]; ok || len(r.servers) == 0 {
		return "relay"
	}
	return slices.Min(slices.Collect(maps.Keys(r.servers)))
}

func (c *client) delta() bool { return strings.HasPrefix(c.down, "delta") }

// streamFor is the stream on which the client speaks about a type, which is
// opened now if there is none.
func (c *client) streamFor(typeURL string) (*stream, error) {
	if c.down == "mixed" {
		return nil, fmt.Errorf("%s has to say what it speaks", c.name)
	}
	key := ""
	if strings.HasSuffix(c.down, "-type") {
		key = typeURL
	}
	if s := c.streams[key]; s != nil {
		return s, nil
	}
	v := xdstest.Variant{Delta: c.delta(), Service: key}
	if v.Method() == "" {
		return nil, fmt.Errorf("%s has no service that speaks %s", typeWord(typeURL), c.down)
	}
	s := newStream(c.dial().Open(v), v.Delta)
	c.streams[key] = s
	return s, nil
}

func newStream(s *xdstest.Stream, delta bool) *stream {
	return &stream{Stream: s, delta: delta, nonces: make(map[string]bool), topics: make(map[string]*topic)}
}

// dial connects the client with its server.
func (c *client) dial() *xdstest.Conn {
	addr := c.r.servers[c.server].Addr()
	if c.conn == nil || c.connAddr != addr {
		c.conn, c.connAddr = c.r.network.Client(c.r.t, addr), addr
		c.conn.ShareTranscript(c.r.log, c.name)
	}
	return c.conn
}

// speaking is the stream and topic of a type that the client has spoken about.
func (c *client) speaking(typeURL string) (*stream, *topic, error) {
	for _, key := range []string{typeURL, ""} {
		if s := c.streams[key]; s != nil {
			if t := s.topics[typeURL]; t != nil {
				return s, t, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("%s has not said anything about %s", c.name, typeWord(typeURL))
}

func (s *stream) topic(typeURL string) *topic {
	t := s.topics[typeURL]
	if t == nil {
		t = &topic{legacy: xdstest.WildcardCapable(typeURL), held: make(map[string]holding), shown: make(map[string]holding), gone: make(map[string]bool)}
		s.topics[typeURL] = t
	}
	return t
}

// wild reports whether the client wants all there is of the type.
func (t *topic) wild() bool { return t.asked && t.legacy || slices.Contains(t.names, xdstest.Wildcard) }

// covers reports whether the client wants a name. Names of xdstp are not looked
// at: they may be spelled otherwise or be members of a glob.
func (t *topic) covers(name string) bool {
	return t.wild() || slices.Contains(t.names, name) || strings.HasPrefix(name, "xdstp:")
}

// forgetUncovered drops what the client no longer wants.
func (t *topic) forgetUncovered() {
	for _, m := range []map[string]holding{t.held, t.shown} {
		maps.DeleteFunc(m, func(n string, _ holding) bool { return !t.covers(n) })
	}
}

// silence is an error if a frame has arrived that was not taken, or arrives within
// d, or if a stream ends that is to stay open. An empty type means all.
func (c *client) silence(d time.Duration, typeURL string, open bool) error {
	for _, window := range []time.Duration{d, 0} {
		c.sync()
		if err := c.nothingWaits(window, typeURL, open); err != nil {
			return err
		}
	}
	return nil
}

// nothingWaits is silence without regard to what is still on its way.
func (c *client) nothingWaits(d time.Duration, typeURL string, open bool) error {
	of := "anything"
	if typeURL != "" {
		of = "anything of " + typeWord(typeURL)
	}
	for key, s := range c.streams {
		if typeURL != "" && key != "" && key != typeURL {
			continue
		}
		f, err := s.Next(d, func(f *xdstest.Frame) bool { return typeURL == "" || f.TypeURL == typeURL })
		switch {
		case err == nil:
			return fmt.Errorf("%s got %s, and should not have heard %s", c.name, c.r.describe(f), of)
		case open && !isNothing(err):
			return fmt.Errorf("%s should not have heard %s, but %w", c.name, of, err)
		}
		d = 0 // the other streams had as much time
	}
	return nil
}

// sync makes a round trip on the client's connection, by a call that no server
// knows. Windows of silence begin and end with one, so that they grow with the
// load of the machine: what was sent before has been read at the other end.
func (c *client) sync() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.r.patience)
	defer cancel()
	_ = c.conn.ClientConn().Invoke(ctx, "/conversation.Sync/Sync", &emptypb.Empty{}, &emptypb.Empty{})
}

// describe is a frame in the words of a script.
func (r *run) describe(f *xdstest.Frame) string {
	var b strings.Builder
	b.WriteString(typeWord(f.TypeURL))
	if len(f.Resources)+len(f.Removed)+len(f.Errors) == 0 {
		b.WriteString(" nothing")
	}
	for _, res := range f.Resources {
		b.WriteString(" " + res.Name)
		if res.Body == nil {
			b.WriteString("{bodyless}")
		} else {
			b.WriteString("=" + r.contents.tagOf(res.Body))
		}
	}
	if len(f.Removed) > 0 {
		b.WriteString(" removed " + strings.Join(f.Removed, " "))
	}
	for i, e := range f.Errors {
		if i == 0 {
			b.WriteString(" errors")
		}
		fmt.Fprintf(&b, " %s=%s", e.GetResourceName().GetName(), codeName(e.GetErrorDetail().GetCode()))
	}
	return fmt.Sprintf("%s version %q", b.String(), f.Version)
}
