package relay_test

import "xdsrelay/relay/xdstest"

// wants is what a client is subscribed to of one type.
type wants struct {
	wild  bool
	names map[string]bool
}

func (w *wants) covers(name string) bool { return w.wild || w.names[name] }

func (w *wants) add(names []string) {
	for _, n := range names {
		if n == xdstest.Wildcard {
			w.wild = true
		} else {
			w.names[n] = true
		}
	}
}

func (w *wants) drop(names []string) {
	for _, n := range names {
		if n == xdstest.Wildcard {
			w.wild = false
		} else {
			delete(w.names, n)
		}
	}
}

// quirks follows what go-control-plane makes of one type of a client that is
// connected to it, as far as relay/conformance/differences.txt lists it.
type quirks struct {
	linear, delta bool // fixed
	legacy        bool // fixed: the type has a legacy wildcard

	// named: names were sent on this stream, so that a wildcard is one of them
	// (SotW).
	named bool
	// lost are the names that were dropped on this stream, alone or with a
	// wildcard, and have not changed since they are wanted again. Over SotW the request that dropped
	// them may have crossed a response, so that it counted for nothing (B8).
	lost map[string]bool
	// back: the client came back to this stream with what it held.
	back bool
}

func (q *quirks) newStream(w *wants) {
	q.named, q.back = false, true
	clear(q.lost)
	q.subscribed(w)
}

func (q *quirks) subscribed(w *wants) {
	q.named = q.named || len(w.names) > 0 || w.wild && !q.legacy
}

// unsubscribed notes what is wanted after something was dropped.
func (q *quirks) unsubscribed(w *wants) {
	q.named = true
	for _, n := range differentialNames {
		if !w.covers(n) {
			q.lost[n] = true
		}
	}
}

// changed notes that the origin has other content, or none, under a name.
func (q *quirks) changed(w *wants, name string) {
	if w.covers(name) {
		delete(q.lost, name)
	}
}

// explain returns the word under which a difference is listed, "" if it is not.
func (q *quirks) explain(w *wants, name, what string) string {
	switch {
	case !q.delta && !q.linear && q.named && w.wild && !w.names[name]:
		return "star"
	case what == missing && q.lost[name]:
		return "again"
	case !q.delta && q.linear && q.back && what == notGone:
		return "gone-while-away"
	}
	return ""
}
