package notes

import (
	"iter"
	"slices"

	"xdsrelay/relay/cache/guarded"
	"xdsrelay/relay/cache/list"
	"xdsrelay/relay/resource"
)

// Notes has the problems of one type, and the unknown fields of its responses. One goroutine changes
// it at a time, while no other one reads it; see [Notes.Guard].
type Notes struct {
	guard guarded.Guard

	byName map[string][]*Problem
	byNote list.List[Problem] // all of these
	own    int                // how many are OwnError
	extra  Extra
	bytes  int64
}

// Extra holds the fields that the relay does not know, of the newest response with any. They are sent
// with other news of the type, or alone if they arrived alone.
type Extra struct {
	Fields []byte
	Note   uint64
	Alone  bool
}

// New makes empty Notes.
func New() Notes {
	return Notes{byName: make(map[string][]*Problem), byNote: list.New(problemLink)}
}

// Guard makes each use of n call check, which panics if the goroutine must not use it: changes says
// that it may be changed, not only read. It does nothing without the race detector.
func (n *Notes) Guard(check func(changes bool)) { n.guard.By(check) }

// Of returns what was sent about a name. The slice does not change: it is replaced.
func (n *Notes) Of(name string) []*Problem {
	n.guard.Reading()
	return n.byName[name]
}

// Len returns the number of problems.
func (n *Notes) Len() int {
	n.guard.Reading()
	return n.byNote.Len()
}

// Own returns the number of errors of the relay itself.
func (n *Notes) Own() int {
	n.guard.Reading()
	return n.own
}

// Bytes estimates the memory of n.
func (n *Notes) Bytes() int64 {
	n.guard.Reading()
	return n.bytes
}

// Newest returns the problem with the highest note; nil if there is none. See [Problem.Older].
func (n *Notes) Newest() *Problem {
	n.guard.Reading()
	return n.byNote.Newest()
}

// Scan iterates over the problems of each name in no order, and calls pause after every step of
// names. Names may be removed meanwhile; what is added during a scan may be missed.
func (n *Notes) Scan(step int, pause func()) iter.Seq2[string, []*Problem] {
	return func(yield func(string, []*Problem) bool) {
		n.guard.Reading()
		seen := 0
		for name, all := range n.byName {
			if !yield(name, all) {
				return
			}
			if seen++; seen%step == 0 {
				pause()
			}
		}
	}
}

// Has reports whether p says nothing that is not known already.
func (n *Notes) Has(p *Problem) bool {
	n.guard.Reading()
	old := n.replacedBy(p)
	return old != nil && p.same(old)
}

// Add adds p with a note that is higher than all before, and removes what it replaces.
func (n *Notes) Add(p *Problem, note uint64) {
	n.guard.Writing()
	if old := n.replacedBy(p); old != nil {
		n.drop(old)
	}
	p.note = note
	n.byName[p.Name] = append(slices.Clip(n.byName[p.Name]), p)
	n.byNote.Push(p)
	n.count(p, 1)
}

func (n *Notes) replacedBy(p *Problem) *Problem {
	for _, old := range n.byName[p.Name] {
		if p.replaces(old) {
			return old
		}
	}
	return nil
}

// Drop removes p, which must be there.
func (n *Notes) Drop(p *Problem) {
	n.guard.Writing()
	n.drop(p)
}

func (n *Notes) drop(p *Problem) {
	rest := slices.DeleteFunc(slices.Clone(n.byName[p.Name]), func(o *Problem) bool { return o == p })
	if len(rest) == 0 {
		delete(n.byName, p.Name)
	} else {
		n.byName[p.Name] = rest
	}
	n.byNote.Remove(p)
	n.count(p, -1)
}

func (n *Notes) count(p *Problem, by int) {
	n.bytes += int64(by) * p.size()
	if p.Kind == OwnError {
		n.own += by
	}
}

// Forget removes what was sent about a name, and reports whether that was an error.
func (n *Notes) Forget(name string) (failed bool) {
	n.guard.Writing()
	for _, p := range n.byName[name] {
		failed = failed || p.IsError()
		n.drop(p)
	}
	return failed
}

// atOnce bounds how many old problems each new one makes Reap examine.
const atOnce = 16

// Reap removes old problems while there are more than limit, except those that keep names.
func (n *Notes) Reap(limit int, keep func(name string) bool) {
	n.guard.Writing()
	p := n.byNote.Oldest()
	for range atOnce {
		if p == nil || n.byNote.Len() <= limit {
			return
		}
		old := p
		if p = p.place.Newer; !keep(old.Name) {
			n.drop(old)
		}
	}
}

// Answer returns the error with which a control plane has answered for a name, on a stream for which
// from is true, if there is one.
func (n *Notes) Answer(name string, from func(stream int) bool) (about resource.About, failed bool) {
	n.guard.Reading()
	for _, p := range n.byName[name] {
		if p.Kind == Error && p.About.Variant == "" && from(p.Stream) {
			return p.About, true
		}
	}
	return about, false
}

// HasError reports whether there is an error of a name.
func (n *Notes) HasError(name string) bool {
	n.guard.Reading()
	return slices.ContainsFunc(n.byName[name], (*Problem).IsError)
}

// SetExtra replaces the unknown fields.
func (n *Notes) SetExtra(x Extra) {
	n.guard.Writing()
	n.bytes += int64(len(x.Fields) - len(n.extra.Fields))
	n.extra = x
}

// Extra returns the unknown fields of the newest response with any.
func (n *Notes) Extra() Extra {
	n.guard.Reading()
	return n.extra
}
