package xdstest

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// stateSub is what a [StateOrigin] knows of one client's interest in one type.
type stateSub struct {
	typeURL string
	first   bool // no request was seen yet
	wild    bool
	legacy  bool // SotW: no request had names so far (B20)
	names   map[string]bool

	nonce    string // of the newest response
	inFlight bool   // it is unanswered

	// By name: the versions that the client accepted (delta), and those it was
	// last sent. They differ while a response is unanswered and after a NACK.
	acked, sent map[string]string

	// late are names of a response (delta) that the client dropped while it was
	// unanswered. It may want them again before it reads the response, and then
	// keeps them.
	late map[string]bool

	must        map[string]bool // names to answer for even if nothing changed
	answerEmpty bool            // an empty response is due if there is nothing to say (B24)
}

func (s *stateSub) begin() {
	s.names, s.must = make(map[string]bool), make(map[string]bool)
	s.acked, s.sent = make(map[string]string), make(map[string]string)
	s.late = make(map[string]bool)
}

// sotw takes a SotW request in.
func (s *stateSub) sotw(r *Request) {
	first := s.first
	if first { // B7: whatever its nonce, it is the first
		s.begin()
		s.first, s.legacy = false, len(r.Names) == 0
	} else if r.Nonce != "" && r.Nonce != s.nonce {
		s.legacy = s.legacy && len(r.Names) == 0 // names were sent all the same (B19)
		return                                   // B8
	}
	s.inFlight = false // B10: a client that quotes no nonce has forgotten it, and will not answer
	before, wasWild := s.names, s.wild
	s.legacy = s.legacy && len(r.Names) == 0
	s.wild = s.legacy && WildcardCapable(s.typeURL) || slices.Contains(r.Names, Wildcard) // B20, B21, B22
	s.names = make(map[string]bool)
	for _, n := range r.Names {
		if n != Wildcard && !IsGlob(n) { // D8
			s.names[keyOf(n)] = true
		}
	}
	for n := range s.names {
		if !before[n] {
			s.must[n] = true // B18
		}
	}
	if s.wild && !wasWild {
		s.answerEmpty = true
	}
	if first && len(r.Names) > 0 && FullState(s.typeURL) {
		// B32: the client may hold what is gone, whatever version it quotes;
		// only a response can tell it.
		s.answerEmpty = true
	}
	s.forgetUncovered()
}

// sotwResponse is what to send now, nil if nothing.
func (s *stateSub) sotwResponse(visible map[string]entry, version, nonce string) proto.Message {
	due := s.answerEmpty
	for n, e := range visible {
		due = due || s.must[n] || s.sent[n] != e.version
	}
	if FullState(s.typeURL) { // B32: for other types an absence cannot be said
		for n := range s.sent {
			_, ok := visible[n]
			due = due || !ok
		}
	}
	s.sent = versionsOf(visible)
	clear(s.must)
	if !due {
		return nil
	}
	s.answerEmpty, s.inFlight, s.nonce = false, true, nonce
	m := &discoveryv3.DiscoveryResponse{TypeUrl: s.typeURL, VersionInfo: version, Nonce: nonce}
	for _, n := range slices.Sorted(maps.Keys(visible)) {
		m.Resources = append(m.Resources, visible[n].inSotW())
	}
	return m
}

// delta takes a delta request in.
func (s *stateSub) delta(r *Request) {
	first := s.first
	if first {
		s.begin()
		s.first = false
		for n, v := range r.Initial { // B37
			s.acked[keyOf(n)], s.sent[keyOf(n)] = v, v
		}
		s.wild = len(r.Subscribe) == 0 && WildcardCapable(s.typeURL) // B23
		s.answerEmpty = s.wild
	} else if s.inFlight && r.Nonce == s.nonce {
		s.inFlight = false
		if !r.IsNack() { // B16: after a NACK what was accepted before stays the base
			s.acked = maps.Clone(s.sent)
		}
		for n := range s.late {
			if _, ok := s.sent[n]; !ok && s.covers(n) {
				s.acked[n], s.sent[n] = "", "" // held, and to be sent again or removed
			}
		}
		clear(s.late)
	}
	// B11: the lists count whatever the nonce; B23: subscribe comes first.
	for _, n := range r.Subscribe {
		if n == Wildcard {
			s.answerEmpty = s.answerEmpty || !s.wild
			s.wild = true
			continue
		}
		n = keyOf(n)
		s.names[n] = true
		if _, held := s.acked[n]; !first || !held {
			s.must[n] = true // B34, B35
		}
	}
	for _, n := range r.Unsubscribe {
		n = keyOf(n)
		switch {
		case n == Wildcard:
			s.wild, s.answerEmpty = false, false
		case s.names[n]:
			delete(s.names, n)
			delete(s.must, n)
			if s.wild {
				s.must[n] = true // B36
			}
		}
	}
	if !first { // at first, what is held without being covered is to be removed
		s.forgetUncovered()
	}
}

// deltaResponse is what to send now, nil if nothing.
func (s *stateSub) deltaResponse(visible map[string]entry, version, nonce string) proto.Message {
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: s.typeURL, SystemVersionInfo: version, Nonce: nonce}
	versions := versionsOf(visible)
	s.spreadGlobs(versions)
	news := len(s.must) > 0 || !maps.Equal(versions, s.sent) // B14: after a NACK only news count
	for _, n := range slices.Sorted(maps.Keys(visible)) {
		if e := visible[n]; s.must[n] || s.acked[n] != e.version {
			m.Resources = append(m.Resources, e.wrapped(n))
		}
	}
	gone := make(map[string]bool)
	for n := range s.acked {
		gone[n] = true
	}
	for n := range s.sent { // perhaps NACKed, perhaps applied all the same
		gone[n] = true
	}
	maps.Copy(gone, s.must)
	for _, n := range slices.Sorted(maps.Keys(gone)) {
		if _, ok := visible[n]; !ok {
			m.RemovedResources = append(m.RemovedResources, n)
		}
	}
	if !(news && len(m.Resources)+len(m.RemovedResources) > 0) && !s.answerEmpty {
		return nil
	}
	s.sent = versions
	clear(s.must)
	s.answerEmpty, s.inFlight, s.nonce = false, true, nonce
	return m
}

// forgetUncovered drops what the client no longer wants, and so no longer holds.
func (s *stateSub) forgetUncovered() {
	uncovered := func(n, _ string) bool { return !s.covers(n) }
	for n := range s.sent {
		if s.inFlight && uncovered(n, "") {
			s.late[n] = true
		}
	}
	maps.DeleteFunc(s.acked, uncovered)
	maps.DeleteFunc(s.sent, uncovered)
}

// covers reports whether the client wants a resource.
func (s *stateSub) covers(name string) bool { return s.wild || Covers(s.names, name) }

// spreadGlobs makes what must be said of a glob be said of its members, or of
// the glob itself where it has none, also if it had some before (G7).
func (s *stateSub) spreadGlobs(visible map[string]string) {
	for glob := range s.names {
		if !IsGlob(glob) {
			continue
		}
		now := members(glob, visible)
		if len(now) == 0 {
			if len(members(glob, s.sent)) > 0 {
				s.must[glob] = true
			}
			continue
		}
		if s.must[glob] && s.nonce == "" { // B37: what is held is not sent again
			delete(s.must, glob)
		} else if s.must[glob] {
			delete(s.must, glob)
			for _, n := range now {
				s.must[n] = true
			}
		}
	}
}

func versionsOf(resources map[string]entry) map[string]string {
	out := make(map[string]string, len(resources))
	for n, e := range resources {
		out[n] = e.version
	}
	return out
}
