package floor

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
)

// Transport is what a floor speaks.
type Transport string

// The transports.
const (
	GRPC Transport = "grpc"
	TCP  Transport = "tcp"
)

// Config is what a floor sends, and how.
type Config struct {
	Spec content.Spec
	// Delta says that messages are of the incremental variant; otherwise they are
	// of state of the world.
	Delta bool
	// Sync says that the first request for each type on a stream is answered with
	// everything there is of the type. Without it, nothing but changes is sent.
	Sync      bool
	Transport Transport
	// TLS encrypts connections of the GRPC transport; nil means plaintext.
	TLS *tls.Config
}

// Floor is a server that broadcasts. It is driven by a [drive.Driver].
type Floor struct {
	cfg     Config        // fixed
	types   []string      // fixed
	counter drive.Counter // atomic

	state *content.State // owned by who calls Change

	mu   sync.Mutex
	keys []key // guarded by mu
}

// key is what there is for the clients of a key.
type key struct {
	tables []*table   // in the order of Floor.types
	firsts []*message // answers to first requests; nil where they have to be built
	peers  []*peer
}

// New encodes the first content. That takes as long as there are keys and
// resources.
func New(cfg Config) (*Floor, error) {
	if err := cfg.Spec.Validate(); err != nil {
		return nil, err
	}
	if cfg.Transport != GRPC && cfg.Transport != TCP {
		return nil, fmt.Errorf("transport: got %q, expected %s or %s", cfg.Transport, GRPC, TCP)
	}
	f := &Floor{
		cfg: cfg, types: cfg.Spec.Types(), state: content.NewState(cfg.Spec, time.Now()),
		keys: make([]key, cfg.Spec.Keys),
	}
	for k := range f.keys {
		f.keys[k].firsts = make([]*message, len(f.types))
		for n := range f.types {
			t, err := newTable(n, k, f.state, cfg.Delta)
			if err != nil {
				return nil, err
			}
			f.keys[k].tables = append(f.keys[k].tables, t)
		}
	}
	return f, nil
}

// Spec is how much there is.
func (f *Floor) Spec() *content.Spec { return &f.cfg.Spec }

// Counter is what the streams are counted in.
func (f *Floor) Counter() *drive.Counter { return &f.counter }

// Listening opens a port of the transport.
func (f *Floor) Listening() drive.Listening {
	if f.cfg.Transport == TCP {
		return &tcpListening{floor: f, conns: make(map[net.Conn]struct{})}
	}
	return f.grpcListening()
}

// Change makes a change, and returns once it was handed to the
// transport for all streams.
func (f *Floor) Change(c content.Change, at time.Time) (content.Stamp, error) {
	step, err := f.state.Next(c, at)
	if err != nil {
		return content.Stamp{}, err
	}
	jobs, err := f.take(step)
	f.broadcast(jobs)
	return step.Stamp, err
}

// take encodes what changed, and returns what has to be sent.
func (f *Floor) take(step content.Step) (jobs []job, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range step.Keys {
		key := &f.keys[k]
		var messages []*message
		for n, typeURL := range f.types {
			numbers, ok := step.Changed[typeURL]
			if !ok {
				continue
			}
			t := key.tables[n]
			for _, i := range numbers {
				if err := t.encode(k, i, f.state, f.cfg.Delta); err != nil {
					return nil, err
				}
			}
			key.firsts[n] = nil
			switch {
			case len(key.peers) == 0:
			case !f.cfg.Delta && (typeURL == content.ClusterURL || typeURL == content.ListenerURL):
				messages = append(messages, t.whole())
			default:
				messages = append(messages, t.part(numbers))
			}
		}
		for chunk := range slices.Chunk(slices.Clone(key.peers), chunkSize) {
			jobs = append(jobs, job{chunk, messages})
		}
	}
	return jobs, nil
}

// first returns everything of a type, by its place in types, for key k.
func (f *Floor) first(k, n int) *message {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := &f.keys[k]
	if key.firsts[n] == nil {
		t := key.tables[n]
		key.firsts[n] = t.first()
	}
	return key.firsts[n]
}

var errNoKey = errors.New("the first message names no key that there is, like " + content.KeyName(0))

// heard is told of each message of a stream. It returns whether it wants to see
// the next one's body; without that, the size is enough.
func (f *Floor) heard(p *peer, size int, body []byte, looked bool) (look bool, err error) {
	f.counter.Request("", size, false)
	if !looked {
		return false, nil
	}
	if !p.joined {
		k := 0
		if len(f.keys) > 1 {
			var ok bool
			if k, ok = content.FindKey(body); !ok || k >= len(f.keys) {
				return false, errNoKey
			}
		}
		f.join(p, k)
	}
	if !f.cfg.Sync {
		return false, nil
	}
	for n, typeURL := range f.types {
		if p.answered&(1<<n) == 0 && bytes.Contains(body, []byte(typeURL)) {
			p.answered |= 1 << n
			// A change that is sent after this one is newer than it: what is sent
			// is chosen while nothing else can be.
			p.sending.Lock()
			m := f.first(p.key, n)
			err := p.to.SendMsg(m)
			p.sending.Unlock()
			if err != nil {
				return false, err
			}
			f.counter.Responses(m.typeURL, 1, m.size())
			break
		}
	}
	return p.answered != 1<<len(f.types)-1, nil
}
