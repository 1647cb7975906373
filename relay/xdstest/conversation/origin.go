package conversation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/xdstest"
)

// origin is one origin of a script, automatic or scripted, and what it was
// asked.
type origin struct {
	r        *run
	name     string
	auto     *xdstest.StateOrigin // nil if scripted
	scripted *xdstest.Origin      // nil if automatic
	said     int                  // scripted: responses so far

	mu      sync.Mutex // guards all below
	streams map[int]*originStream
	heard   []*heard
	changed chan struct{} // closed and replaced with every event
	views   map[string]bool
}

// originStream is one stream of the server under test.
type originStream struct {
	number  int
	grpc    *xdstest.OriginStream // scripted only
	delta   bool
	open    bool
	node    *corev3.Node
	last    map[string]*xdstest.Request // by type
	demands map[string]*demand
}

// demand is what a stream asks for of a type.
type demand struct {
	names  map[string]bool
	legacy bool // no request had names so far
}

// heard is one request. It is mentioned once the script has spoken about it.
type heard struct {
	stream    *originStream
	request   *xdstest.Request
	plain     bool // an ACK that changes nothing
	mentioned bool
}

func (r *run) newOrigin(d originDecl) *origin {
	o := &origin{r: r, name: d.name, streams: make(map[int]*originStream), changed: make(chan struct{}), views: make(map[string]bool)}
	if d.scripted {
		o.scripted = r.network.NewOrigin(r.t)
		o.scripted.ShareTranscript(r.log, d.name)
		o.scripted.Watch(o.event)
	} else {
		o.auto = r.network.NewStateOrigin(r.t, o.viewOf)
		o.auto.ShareTranscript(r.log, d.name)
		o.auto.Watch(o.event)
	}
	return o
}

func (o *origin) addr() string {
	if o.auto != nil {
		return o.auto.Addr()
	}
	return o.scripted.Addr()
}

// viewOf is the view of a node: its cluster's, if the script gives that
// something of its own.
func (o *origin) viewOf(n *corev3.Node) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.views[n.GetCluster()] {
		return n.GetCluster()
	}
	return ""
}

// event takes in what the server under test does. Streams call it concurrently.
func (o *origin) event(e xdstest.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.streams[e.Stream]
	if s == nil {
		s = &originStream{
			number: e.Stream, delta: e.Variant.Delta, open: true,
			last: make(map[string]*xdstest.Request), demands: make(map[string]*demand),
		}
		o.streams[e.Stream] = s
	}
	switch {
	case e.Opened != nil:
		s.grpc = e.Opened
	case e.Ended:
		s.open = false
	case e.Request != nil:
		o.heard = append(o.heard, &heard{stream: s, request: e.Request, plain: s.request(e.Request)})
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// request takes a request in, and reports whether it is an ACK that changes
// nothing.
func (s *originStream) request(r *xdstest.Request) (plain bool) {
	if s.node == nil {
		s.node = r.Node
	}
	before := s.last[r.TypeURL]
	s.last[r.TypeURL] = r
	d := s.demands[r.TypeURL]
	if d == nil {
		d = &demand{names: make(map[string]bool), legacy: true}
		s.demands[r.TypeURL] = d
	}
	if !s.delta {
		d.legacy = d.legacy && len(r.Names) == 0
		d.names = make(map[string]bool)
		for _, n := range r.Names {
			d.names[n] = true
		}
		return r.IsAck() && before != nil && slices.Equal(before.Names, r.Names) && before.Nonce != r.Nonce
	}
	if before == nil {
		d.legacy = len(r.Subscribe) == 0
	}
	for _, n := range r.Subscribe {
		d.names[n] = true
	}
	for _, n := range r.Unsubscribe {
		delete(d.names, n)
		d.legacy = d.legacy && n != xdstest.Wildcard
	}
	return r.IsAck() && len(r.Subscribe)+len(r.Unsubscribe) == 0
}

// wants adds what the stream asks for of a type.
func (s *originStream) wants(typeURL string, into map[string]bool) {
	d := s.demands[typeURL]
	if d == nil {
		return
	}
	maps.Copy(into, d.names)
	if d.legacy && xdstest.WildcardCapable(typeURL) {
		into[xdstest.Wildcard] = true
	}
}

// await waits until cond, which is called with o.mu held, returns nil. After d
// it returns the last error of cond.
func (o *origin) await(d time.Duration, condLocked func() error) error {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	for late := false; ; {
		o.mu.Lock()
		err := condLocked()
		changed := o.changed
		o.mu.Unlock()
		if err == nil || late {
			return err
		}
		select {
		case <-changed:
		case <-deadline.C:
			late = true
		}
	}
}

// sees waits until the open streams together ask for just the names.
func (o *origin) sees(typeURL string, names []string) error {
	want := slices.Sorted(slices.Values(names))
	return o.await(o.r.patience, func() error {
		asked := make(map[string]bool)
		for _, s := range o.streams {
			if s.open {
				s.wants(typeURL, asked)
			}
		}
		if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
			return fmt.Errorf("%s is asked for [%s] of %s, want [%s]", o.name, strings.Join(got, " "), typeWord(typeURL), strings.Join(want, " "))
		}
		for _, h := range o.heard {
			h.mentioned = h.mentioned || !h.request.IsNack()
		}
		return nil
	})
}

// hearsNothing is an error if a request that no line has mentioned is there or
// comes within d, apart from the first ones. ACKs that change nothing do not
// count. An empty type means all.
func (o *origin) hearsNothing(d time.Duration, typeURL string, first int) error {
	var found *xdstest.Request
	_ = o.await(d, func() error {
		for _, h := range o.heard[first:] {
			if !h.mentioned && !h.plain && (typeURL == "" || h.request.TypeURL == typeURL) {
				found = h.request
				return nil
			}
		}
		return fmt.Errorf("nothing, as it should be")
	})
	if found != nil {
		return fmt.Errorf("%s heard %s, and should have heard nothing", o.name, found)
	}
	return nil
}

// heardSoFar is how many requests there were.
func (o *origin) heardSoFar() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.heard)
}

// noRejections is an error if a response was rejected and no line mentions it.
func (o *origin) noRejections() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.heard {
		if h.request.IsNack() && !h.mentioned {
			return fmt.Errorf("%s got a NACK that the script does not mention: %s", o.name, h.request)
		}
	}
	return nil
}

// take waits for the first request of a type that no line has mentioned and that
// is of the wanted kind, and mentions it.
func (o *origin) take(typeURL, what string, match func(*heard) bool) (*heard, error) {
	var found *heard
	err := o.await(o.r.patience, func() error {
		for _, h := range o.heard {
			if !h.mentioned && h.request.TypeURL == typeURL && match(h) {
				h.mentioned, found = true, h
				return nil
			}
		}
		return fmt.Errorf("%s waited %v for %s of %s, in vain", o.name, o.r.patience, what, typeWord(typeURL))
	})
	return found, err
}

// streamOf waits for an open stream that has asked for the type, the newest if
// there are several. A node narrows the choice.
func (o *origin) streamOf(typeURL, node string) (found *originStream, err error) {
	err = o.await(o.r.patience, func() error {
		if found = o.newestLocked(typeURL, node); found == nil {
			return fmt.Errorf("%s has no open stream that asks for %s", o.name, typeWord(typeURL))
		}
		return nil
	})
	return found, err
}

// newestLocked is the newest open stream that has asked for the type, nil if
// there is none. A node's id or cluster narrows the choice.
func (o *origin) newestLocked(typeURL, node string) *originStream {
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(o.streams))) {
		s := o.streams[n]
		asks := typeURL == "" || s.last[typeURL] != nil
		if s.open && asks && (node == "" || s.node.GetId() == node || s.node.GetCluster() == node) {
			return s
		}
	}
	return nil
}
