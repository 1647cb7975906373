package notes

import (
	"fmt"
	"slices"
)

// Check recomputes from scratch what n maintains incrementally. It returns a sentence for each
// difference, and nothing if all is well. last is the highest note so far, and asked reports whether a
// name is asked for on a stream.
func (n *Notes) Check(last uint64, asked func(stream int, name string) bool) (wrong []string) {
	n.guard.Reading()
	before, count, own, bytes := last+1, 0, 0, int64(len(n.extra.Fields))
	for p := n.byNote.Newest(); p != nil; p = p.Older() {
		if count++; p.note >= before || !slices.Contains(n.byName[p.Name], p) || !asked(p.Stream, p.Name) {
			wrong = append(wrong, fmt.Sprintf("what was sent about %q is out of place", p.About.Name))
		}
		if p.Kind == OwnError {
			own++
		}
		before = p.note
		bytes += p.size()
	}
	if count != n.byNote.Len() || own != n.own {
		wrong = append(wrong, fmt.Sprintf("%d problems, %d of the relay itself, but %d and %d are counted", count, own, n.byNote.Len(), n.own))
	}
	if bytes != n.bytes {
		wrong = append(wrong, fmt.Sprintf("the problems take %d bytes, but %d are counted", bytes, n.bytes))
	}
	return wrong
}

// Check is [Notes.Check] for e.
func (e *Errored) Check() (wrong []string) {
	e.guard.Reading()
	known, bytes := 0, int64(0)
	for i, one := range e.order {
		if i > 0 && one.at <= e.order[i-1].at || one.at > e.last {
			wrong = append(wrong, fmt.Sprintf("%q, which had an error, is out of order", one.name))
		}
		if !one.forgotten {
			known++
			bytes += erroredSize(one.name)
		}
		if one.forgotten == (e.names[one.name] == one) {
			wrong = append(wrong, fmt.Sprintf("%q, which had an error, is forgotten: %t", one.name, one.forgotten))
		}
	}
	if known != len(e.names) || bytes != e.bytes {
		wrong = append(wrong, fmt.Sprintf("%d names with an error take %d bytes, but %d and %d are counted", known, bytes, len(e.names), e.bytes))
	}
	return wrong
}
