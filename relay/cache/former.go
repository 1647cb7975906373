package cache

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/resource"
)

// Former is what an overlay replaced: what clients had before it was promoted. It is immutable, and needs no
// table, so that the next owner of a key can have it, too.
type Former struct {
	parts []formerPart
	bytes int64
}

// formerPart is what was replaced of a stream and type.
type formerPart struct {
	typ    *resource.Type
	stream string // see [OriginStream.String]
	names  map[string]formerName
}

// formerName is what was replaced of a canonical name: the resource that clients had before, and the digest
// of the one after it, as [gate.Digest] returns it. Nil and the zero value mean none.
type formerName struct {
	before *resource.Resource
	after  resource.Digest
}

// Former returns what the overlay replaces.
func (o *Overlay) Former() *Former {
	f := &Former{}
	for _, p := range o.parts {
		one := formerPart{p.table.Type, o.group.cache.cfg.Streams[p.by].String(), make(map[string]formerName, len(p.changes))}
		for name, c := range p.changes {
			one.names[name] = formerName{c.Stable, gate.Digest(c.Sent)}
		}
		f.add(one)
	}
	return f
}

func (f *Former) add(p formerPart) {
	f.parts = append(f.parts, p)
	for name, one := range p.names {
		if f.bytes += int64(len(name)); one.before != nil {
			f.bytes += int64(one.before.Size())
		}
	}
}

// Bytes estimates the memory of the resources.
func (f *Former) Bytes() int64 { return f.bytes }

// Resources returns the resources that clients had before.
func (f *Former) Resources() (all []*resource.Resource) {
	for _, p := range f.parts {
		for _, name := range slices.Sorted(maps.Keys(p.names)) {
			if r := p.names[name].before; r != nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// Types returns the types of which something was replaced.
func (f *Former) Types() (all []*resource.Type) {
	for _, p := range f.parts {
		all = append(all, p.typ)
	}
	return all
}

// SharedFormer is a [Former] of a stream and type, for another node.
type SharedFormer struct {
	TypeURL string `json:"type_url"`
	Stream  string `json:"stream"`
	// Before is an encoded DeltaDiscoveryResponse with the resources that clients had before.
	Before []byte `json:"before,omitempty"`
	// After is the digest of the resource after that, by canonical name; empty for none. It has all names.
	After map[string]string `json:"after"`
}

// Share returns it for another node.
func (f *Former) Share() (all []SharedFormer) {
	for _, p := range f.parts {
		one := SharedFormer{TypeURL: p.typ.URL, Stream: p.stream, After: make(map[string]string, len(p.names))}
		m := resource.Message{Type: p.typ}
		for _, name := range slices.Sorted(maps.Keys(p.names)) {
			n := p.names[name]
			if one.After[name] = ""; n.after != (resource.Digest{}) {
				one.After[name] = n.after.Hex()
			}
			if n.before != nil {
				m.Resources = append(m.Resources, n.before)
			}
		}
		if m.Resources != nil {
			one.Before = resource.AppendDelta(nil, &m)
		}
		all = append(all, one)
	}
	return all
}

// ReceiveFormer decodes what [Former.Share] has returned on another node.
func ReceiveFormer(shared []SharedFormer) (*Former, error) {
	f := &Former{}
	for _, one := range shared {
		p := formerPart{resource.TypeOf(one.TypeURL), one.Stream, make(map[string]formerName, len(one.After))}
		for name, text := range one.After {
			var n formerName
			b, err := hex.DecodeString(text)
			if err != nil || len(b) > 0 && len(b) != len(n.after) {
				return nil, fmt.Errorf("cache: a former revision of another node: %q is no digest", text)
			}
			copy(n.after[:], b)
			p.names[name] = n
		}
		if len(one.Before) > 0 {
			rsp, err := resource.DecodePeer(one.Before)
			if err == nil && len(rsp.Invalid) > 0 {
				err = rsp.Invalid[0].Err
			}
			if err != nil {
				return nil, fmt.Errorf("cache: a former revision of another node: %w", err)
			}
			for _, res := range rsp.Resources {
				if n, has := p.names[res.Key]; has {
					n.before = res
					p.names[res.Key] = n
				}
			}
		}
		f.add(p)
	}
	return f, nil
}

// Revert gives all clients back what they had before an overlay was promoted. After that, its content is
// pending. Names that have changed since are left out. It returns the number of changes.
func (g *Group) Revert(f *Former) (changes int) {
	return g.applyAll(func(t *Table, now time.Time) (n int) {
		for i := range f.parts {
			if p := &f.parts[i]; p.typ.URL == t.Type.URL {
				n += t.core.revert(p, now)
			}
		}
		return n
	})
}

func (t *core) revert(p *formerPart, now time.Time) int {
	by := t.group.cache.StreamNamed(p.stream)
	if by < 0 || t.streams[by].gate == nil {
		return 0
	}
	stream := &t.streams[by]
	change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: t.woken, final: true}
	before := t.store.Sum(by).Digest
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		c := p.names[name]
		if gate.Digest(t.shown(by, name)) != c.after {
			continue
		}
		sent, _ := t.sent(by, name)
		switch e := t.store.Get(name); {
		case c.before != nil && t.mayHold(by, c.before):
			change.put(c.before)
		case c.before == nil && e != nil:
			change.drop(e)
		}
		stream.gate.Hold(name, sent, t.shown(by, name))
	}
	if t.store.Sum(by).Digest != before {
		stream.version = ""
	}
	return t.released(&change, &Update{Type: t.Type}, now, CauseUndone)
}
