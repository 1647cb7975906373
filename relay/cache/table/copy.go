package table

import "xdsrelay/relay/resource"

// Copy is the copy of a resource that one stream delivered.
type Copy struct {
	Stream int
	// Version is the newest one that the control plane gave. It differs from Res.Version if
	// identical content arrived with a new version (D15).
	Version  string
	Res      *resource.Resource
	TTLState *TTLState // nil if it has no TTL
}

// CopyFrom returns the copy of a stream, nil if there is none.
func (e *Entry) CopyFrom(stream int) *Copy {
	switch {
	case e.Res == nil:
		return nil
	case e.Stream == stream:
		return &e.Copy
	}
	if second := e.Second(); second != nil && second.Stream == stream {
		return second
	}
	return nil
}

// BelongsTo reports whether a stream has a copy of e, or is refused one.
func (e *Entry) BelongsTo(stream int) bool {
	return e.CopyFrom(stream) != nil || e.Denied && e.Stream == stream
}

// Copies lists the copies of e.
func (e *Entry) Copies() []Copy {
	if e.Res == nil {
		return nil
	}
	if second := e.Second(); second != nil {
		return []Copy{e.Copy, *second}
	}
	return []Copy{e.Copy}
}

// OtherCopy returns the copy of another stream, nil if there is none.
func (e *Entry) OtherCopy(stream int) *Copy {
	switch {
	case e.Res == nil:
		return nil
	case e.Stream != stream:
		other := e.Copy
		return &other
	}
	return e.Second()
}

// secondSize is the additional memory of the second copy, in bytes.
func (e *Entry) secondSize() int64 {
	second := e.Second()
	if second == nil || second.Res == e.Res {
		return 0
	}
	return int64(second.Res.Size())
}

// Sum is what a stream has of the content of a store.
type Sum struct {
	Live   int             // resources that it has a copy of
	Denied int             // resources that its control plane refuses to show
	Digest resource.Digest // of its copies
}

func (s *Sum) count(old, res *resource.Resource) {
	if old != nil {
		s.Live--
		s.Digest = s.Digest.Sub(old.Member())
	}
	if res != nil {
		s.Live++
		s.Digest = s.Digest.Add(res.Member())
	}
}

// Sum returns what a stream has of the content.
func (s *Store) Sum(stream int) Sum {
	s.guard.Reading()
	return s.sums[stream]
}

// Count replaces old by res in what a stream has; either may be nil.
func (s *Store) Count(stream int, old, res *resource.Resource) {
	s.guard.Writing()
	s.sums[stream].count(old, res)
}

// SetCopies replaces the copies of e by those of st, which clients see no difference to. The TTL
// state of a copy ends with it.
func (s *Store) SetCopies(e *Entry, st State) {
	s.guard.Writing()
	s.bytes -= e.secondSize()
	kept := func(l *TTLState) bool { return l == st.TTLState || st.Second != nil && l == st.Second.TTLState }
	if l := e.TTLState; l != nil && !kept(l) {
		s.endTTLState(l)
	} else if l != nil && l != st.TTLState {
		s.unlist(l)
	}
	second := e.Second()
	if second != nil && second.TTLState != nil && !kept(second.TTLState) {
		s.endTTLState(second.TTLState)
	}
	if e.Denied {
		s.sums[e.Stream].Denied--
	}
	if st.Denied {
		s.sums[st.Stream].Denied++
	}
	e.Copy, e.Denied = st.Copy, st.Denied
	if st.Second != second {
		e.with().second = st.Second
	}
	s.bytes += e.secondSize()
}

// SetVersion sets the version of a stream's copy of e, which it must have.
func (s *Store) SetVersion(e *Entry, stream int, version string) {
	s.guard.Writing()
	if c := e.CopyFrom(stream); c.Version != version { // an equal one has memory already
		c.Version = version
	}
}
