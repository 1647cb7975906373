package fielddiff

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// Change says how a field differs.
type Change string

// The changes.
const (
	Added     Change = "added"     // only the new version has it
	Removed   Change = "removed"   // only the old version has it
	Changed   Change = "changed"   // the values differ
	Reordered Change = "reordered" // a list has the same elements in another order
	Hidden    Change = "hidden"    // the difference is in something that must not be shown
	Encoding  Change = "encoding"  // the values are equal, and encoded differently
)

// Field is one difference.
type Field struct {
	// Path is the place in the JSON of the resource; empty for the whole resource. Paths that
	// begin with "envelope" are in the Resource message around it: metadata, aliases, cache control.
	Path   string `json:"path"`
	Change Change `json:"change"`
	// Old and New are the values as redacted JSON, cut after some hundred bytes.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Diff lists how two versions of a resource differ.
type Diff struct {
	Fields []Field `json:"fields"`
	// Omitted is the number of further differences.
	Omitted int `json:"omitted,omitempty"`
	// Problem says why the versions could not be compared.
	Problem string `json:"problem,omitempty"`
}

// Of compares two versions of a resource; nil is a version that does not exist. It returns at most
// limit differences and counts the others. The time is proportional to the size of both versions;
// callers hold no lock.
func Of(from, to *resource.Resource, limit int) Diff {
	d := differ{limit: limit}
	d.Fields = []Field{}
	if err := d.bodies(from, to); err != nil {
		d.Problem = "it cannot be compared: " + redact.Text(err.Error())
		return d.Diff
	}
	if err := d.envelopes(from, to); err != nil {
		d.Problem = "the envelopes cannot be compared: " + redact.Text(err.Error())
	}
	return d.Diff
}

func (d *differ) bodies(from, to *resource.Resource) error {
	a, err := d.body(from)
	if err != nil {
		return err
	}
	b, err := d.body(to)
	if err != nil {
		return err
	}
	switch {
	case !a.exists() && !b.exists():
	case !a.exists():
		d.single = true
		d.message("", b.cleared(), b, 0)
	case !b.exists():
		d.single = true
		d.message("", a, a.cleared(), 0)
	default:
		d.message("", a, b, 0)
	}
	return nil
}

// body decodes the body of a resource.
func (d *differ) body(r *resource.Resource) (m pair, err error) {
	if r == nil || len(r.Body) == 0 {
		return m, nil
	}
	shown, raw := &anypb.Any{}, &anypb.Any{}
	if err := proto.Unmarshal(r.Body, shown); err != nil {
		return m, err
	}
	if err := proto.Unmarshal(r.Body, raw); err != nil {
		return m, err
	}
	d.redactor.Any(shown)
	m = pair{shown.ProtoReflect(), raw.ProtoReflect()}
	return m, nil
}

func (d *differ) envelopes(from, to *resource.Resource) error {
	d.single = false
	a, err := d.envelope(from)
	if err != nil {
		return err
	}
	b, err := d.envelope(to)
	if err != nil {
		return err
	}
	if from != nil && to != nil { // otherwise it is all as new or old as the resource
		d.message("envelope", a, b, 0)
	}
	return nil
}

// envelope decodes the fields around a resource.
func (d *differ) envelope(r *resource.Resource) (m pair, err error) {
	shown, raw := &discoveryv3.Resource{}, &discoveryv3.Resource{}
	if r == nil {
		return m, nil
	}
	if err := proto.Unmarshal(r.Extra, shown); err != nil {
		return m, err
	}
	if err := proto.Unmarshal(r.Extra, raw); err != nil {
		return m, err
	}
	d.redactor.Message(shown)
	return pair{shown.ProtoReflect(), raw.ProtoReflect()}, nil
}

// pair is a message twice: as it may be shown, and as it is. raw is nil where the two have another
// structure, because the whole was hidden.
type pair struct{ shown, raw protoreflect.Message }

func (p pair) exists() bool { return p.shown != nil }

// cleared returns an empty message of the same type.
func (p pair) cleared() pair {
	empty := func(m protoreflect.Message) protoreflect.Message {
		if m == nil {
			return nil
		}
		if inner := openAny(m); inner != nil {
			out := &anypb.Any{TypeUrl: anyURL(m)}
			return out.ProtoReflect()
		}
		return m.New()
	}
	return pair{empty(p.shown), empty(p.raw)}
}

// same reports whether two messages are equal, including what is hidden.
func same(a, b pair) bool {
	return proto.Equal(a.shown.Interface(), b.shown.Interface()) && (a.raw == nil || b.raw == nil || proto.Equal(a.raw.Interface(), b.raw.Interface()))
}
