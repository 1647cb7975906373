package xdstest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
)

// stateStream is one stream to a [StateOrigin]; all of it belongs to the
// stream's handler goroutine.
type stateStream struct {
	origin  *StateOrigin
	number  int
	id      string
	variant Variant
	grpc    grpc.ServerStream
	view    string
	known   bool // the first request came: view is set
	subs    map[string]*stateSub
	nonces  int
}

// handle serves one stream.
func (o *StateOrigin) handle(v Variant, ss grpc.ServerStream) error {
	s := &stateStream{origin: o, variant: v, grpc: ss, subs: make(map[string]*stateSub)}
	o.count(func(c *Counts) {
		c.Streams++
		c.Open++
		s.number, s.id = c.Streams, fmt.Sprintf("#%d", c.Streams)
	})
	defer o.count(func(c *Counts) { c.Open-- })
	o.log.add("%s opened %s", s.id, v)
	o.notify(Event{Stream: s.number, Variant: v})
	err := s.serve()
	o.forget(s)
	o.notify(Event{Stream: s.number, Variant: v, Ended: true})
	o.log.add("%s ended: %v", s.id, err)
	return err
}

func (s *stateStream) serve() error {
	requests := make(chan *Request)
	received := make(chan error, 1)
	go func() { received <- s.receive(requests) }()
	for {
		changed, clock := s.origin.changes() // before the state is read
		for _, typeURL := range xdsclient.InPushOrder(slices.Collect(maps.Keys(s.subs))) {
			if err := s.push(typeURL, s.subs[typeURL]); err != nil {
				return err
			}
		}
		s.origin.report(s, progress{clock: clock, unanswered: s.unanswered()})
		select {
		case r := <-requests:
			if err := s.request(r); err != nil {
				return err
			}
		case <-changed:
		case err := <-received:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// unanswered counts the responses that are in flight.
func (s *stateStream) unanswered() (n int) {
	for _, sub := range s.subs {
		if sub.inFlight {
			n++
		}
	}
	return n
}

// receive hands requests over, one by one, until the stream ends.
func (s *stateStream) receive(to chan<- *Request) error {
	for {
		var m proto.Message = &discoveryv3.DiscoveryRequest{}
		if s.variant.Delta {
			m = &discoveryv3.DeltaDiscoveryRequest{}
		}
		if err := s.grpc.RecvMsg(m); err != nil {
			return err
		}
		select {
		case to <- xdsclient.RequestOf(m):
		case <-s.grpc.Context().Done():
			return s.grpc.Context().Err()
		}
	}
}

func (s *stateStream) request(r *Request) error {
	s.origin.log.add("%s <- %s", s.id, r)
	s.origin.notify(Event{Stream: s.number, Variant: s.variant, Request: r})
	s.origin.count(func(c *Counts) {
		c.Requests++
		if r.IsNack() {
			c.Nacks++
		}
	})
	if !s.known { // B1: the first request's node counts
		s.view, s.known = s.origin.viewOf(r.Node), true
	}
	typeURL := r.TypeURL
	if typeURL == "" {
		typeURL = s.variant.Service // A5
	}
	if typeURL == "" || s.variant.Service != "" && typeURL != s.variant.Service {
		return status.Errorf(codes.InvalidArgument, "type %q on a stream of %s", r.TypeURL, s.variant)
	}
	sub := s.subs[typeURL]
	if sub == nil {
		sub = &stateSub{typeURL: typeURL, first: true}
		s.subs[typeURL] = sub
	}
	if s.variant.Delta {
		sub.delta(r)
	} else {
		sub.sotw(r)
	}
	return nil
}

// push sends what the subscription lacks, unless a response is unanswered.
func (s *stateStream) push(typeURL string, sub *stateSub) error {
	if sub.inFlight {
		return nil // B9
	}
	visible := s.origin.visible(s.view, typeURL, sub.wild, sub.names)
	var m proto.Message
	if s.variant.Delta {
		m = sub.deltaResponse(visible, s.version(), s.nextNonce())
	} else {
		m = sub.sotwResponse(visible, s.version(), s.nextNonce())
	}
	if m == nil {
		return nil
	}
	s.origin.log.add("%s -> %s", s.id, lineOf(m))
	s.origin.count(func(c *Counts) { c.Responses++ })
	s.origin.notify(Event{Stream: s.number, Variant: s.variant, Response: m})
	return s.grpc.SendMsg(m)
}

func (s *stateStream) version() string {
	s.origin.mu.Lock()
	defer s.origin.mu.Unlock()
	return fmt.Sprintf("w%d", s.origin.clock)
}

func (s *stateStream) nextNonce() string {
	s.nonces++
	return fmt.Sprintf("s%d", s.nonces)
}
