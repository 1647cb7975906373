package notes

import (
	"xdsrelay/relay/cache/list"
	"xdsrelay/relay/resource"
)

// Kind says what a [Problem] is.
type Kind uint8

// The kinds. Of one stream, name and variant there is one removal and one error at most.
const (
	Error    Kind = iota // an error of a control plane (C16)
	OwnError             // an error of the relay itself, while it cannot ask the control plane (K15)
	Removal              // a removal, in the form that the control plane wrote it in
)

// Problem is what was sent about a name besides the resources. An error is remembered until the
// resource arrives, a newer error arrives, or the interest in the name ends (C16). It does not change
// after [NewProblem].
type Problem struct {
	About  resource.About
	Name   string // canonical (G1)
	Stream int    // the stream that delivered it
	Kind   Kind

	note  uint64 // the Notes set it
	place list.Link[Problem]
}

func problemLink(p *Problem) *list.Link[Problem] { return &p.place }

// NewProblem makes a problem that a stream delivered.
func NewProblem(about resource.About, stream int, kind Kind) *Problem {
	return &Problem{About: about, Name: resource.Canonical(about.Name), Stream: stream, Kind: kind}
}

// Note is the number of the problem among all notes of the table.
func (p *Problem) Note() uint64 { return p.note }

// Older returns the problem that was added before p; nil if there is none.
func (p *Problem) Older() *Problem { return p.place.Older }

// IsError reports whether p is an error, of a control plane or of the relay.
func (p *Problem) IsError() bool { return p.Kind != Removal }

// replaces reports whether old is forgotten when p arrives.
func (p *Problem) replaces(old *Problem) bool {
	return old.IsError() == p.IsError() && old.Stream == p.Stream && old.About.Variant == p.About.Variant
}

// same reports whether p says nothing else than old, which it would replace.
func (p *Problem) same(old *Problem) bool {
	return old.Kind == p.Kind && string(old.About.Raw) == string(p.About.Raw)
}

// size estimates the memory of p, in bytes.
func (p *Problem) size() int64 {
	return int64(180 + 2*len(p.About.Name) + len(p.About.Raw) + len(p.About.Variant))
}
