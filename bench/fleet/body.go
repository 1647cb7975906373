package fleet

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/bench/content"
	"xdsrelay/bench/fleet/h2"
)

// item is a resource that was read. It is immutable.
type item struct {
	number   int
	version  string // delta only
	revision uint64
	at       int64 // when the revision was intended, in ns since 1970
	hash     uint64
}

// body is what a response says to whoever gets it, without the nonce. It is
// immutable and shared.
type body struct {
	kind     kind
	hash     uint64
	version  string
	items    []item // of this key, each name once
	names    *set   // of the items
	removed  *set
	newest   uint64 // the greatest revision
	problems []problem
	bad      string // why clients reject it; empty for a good one
}

// size is how many resources and names it holds.
func (b *body) size() int { return len(b.items) + b.removed.len() }

// bodyLocked reads a response of type k, unless it was read before. v.mu is held.
func (v *view) bodyLocked(k kind, e *envelope, m *h2.Message) *body {
	if b, ok := v.bodies.get(e.hash); ok && b.kind == k {
		return b
	}
	b := &body{kind: k, hash: e.hash, version: string(e.version)}
	var present, removed []uint64
	err := eachField(whole(m), func(num protowire.Number, f []byte) error {
		switch {
		case num == rspResource:
			if i, ok := v.itemLocked(b, f); ok {
				if i.number/64 < len(present) && present[i.number/64]>>(i.number%64)&1 != 0 {
					b.note(DuplicateName, "%s is in a response twice", v.name(k, i.number))
					break
				}
				present = setBit(present, i.number)
				b.items = append(b.items, i)
				b.newest = max(b.newest, i.revision)
			}
		case num == rspRemoved && v.fleet.cfg.Delta:
			if i, ok := v.number(b, string(f)); ok {
				removed = setBit(removed, i)
			}
		}
		return nil
	})
	if err != nil {
		b.note(Malformed, "a response of type %s: %v", k.info().name, err)
		b.bad = err.Error()
	}
	b.names, b.removed = v.share(newSet(present)), v.share(newSet(removed))
	v.checkBodyLocked(b)
	v.bodies.put(e.hash, b, 8+b.size())
	return b
}

func (b *body) note(k Kind, format string, args ...any) {
	b.problems = append(b.problems, problemf(k, format, args...))
}

// itemLocked reads a resource, unless it was read before. v.mu is held.
func (v *view) itemLocked(b *body, f []byte) (item, bool) {
	hash := xxhash.Sum64(f)
	key := itemKey{b.kind, hash}
	if i, ok := v.items.get(key); ok {
		return i, true
	}
	p, err := readResource(f, v.fleet.cfg.Delta)
	if err == nil && p.body && string(p.url) != b.kind.info().url {
		err = fmt.Errorf("it has the type %q", p.url)
	}
	if err == nil && !p.body {
		err = errors.New("it has no body")
	}
	if err != nil {
		b.note(Malformed, "resource %q of type %s: %v", p.name, b.kind.info().name, err)
		b.bad = err.Error()
		return item{}, false
	}
	number, ok := v.number(b, p.name)
	if !ok {
		return item{}, false
	}
	stamp, ok := content.FindStamp(p.value)
	if !ok {
		b.note(Altered, "%s has no stamp", p.name)
		return item{}, false
	}
	i := item{number: number, version: p.version, revision: stamp.Revision, at: stamp.At.UnixNano(), hash: hash}
	// Building what it should be takes longer than reading it, so that of large
	// responses a sample has to do.
	if v.fleet.cfg.count(b.kind) > 0 && (len(b.items) < 64 || hash%16 == 0) {
		spec := &v.fleet.cfg.Content
		if want := spec.Resource(b.kind.info().url, v.key, number, stamp); !bytes.Equal(want.GetValue(), p.value) {
			b.note(Altered, "%s of type %s is not what the origin has at revision %d, with %d bytes and %d there",
				p.name, b.kind.info().name, stamp.Revision, len(p.value), len(want.GetValue()))
		}
	}
	if v.fleet.cfg.Delta {
		v.checkVersionLocked(b, itemVersion{b.kind, number}, stamp.Revision, p.version, p.name)
	}
	v.fleet.world.note(b.kind, stamp.Revision, i.at)
	v.items.put(key, i, 1)
	return i, true
}

// number is the number in a name of this key.
func (v *view) number(b *body, name string) (int, bool) {
	key, i, ok := content.ParseName(b.kind.info().url, name)
	if !ok || key != v.fleet.cfg.Content.Source(v.key) {
		b.note(ForeignName, "%q of type %s was sent to a client of key %s", name, b.kind.info().name, content.KeyName(v.key))
		return 0, false
	}
	return i, true
}

// checkBodyLocked looks for what is wrong with a body whoever gets it.
func (v *view) checkBodyLocked(b *body) {
	if v.fleet.cfg.Delta {
		if n := v.fleet.cfg.count(b.kind); n > 0 {
			b.removed.each(func(i int) {
				if i < n {
					b.note(Removed, "%s of type %s, which is there, was removed", v.name(b.kind, i), b.kind.info().name)
				}
			})
		}
		return
	}
	if b.version == "" {
		b.note(NoVersion, "a response of type %s", b.kind.info().name)
		return
	}
	if !b.kind.info().wild {
		return
	}
	if n := v.fleet.cfg.count(b.kind); b.names.len() < n {
		for i := range n {
			if !b.names.has(i) {
				b.note(Incomplete, "a full state of %d resources of type %s is without %s", b.names.len(), b.kind.info().name, v.name(b.kind, i))
				break
			}
		}
	}
	// The version of a full state is that of the set.
	sum := uint64(len(b.items))
	for _, i := range b.items {
		sum += mix(uint64(i.number), i.revision)
	}
	v.checkVersionLocked(b, itemVersion{b.kind, -1}, sum, b.version, "the state of type "+b.kind.info().name)
}

// itemVersion is what has versions: a resource, or all of a type (-1).
type itemVersion struct {
	kind   kind
	number int
}

// versionOf is one version that was seen.
type versionOf struct {
	content uint64
	version string
}

// rememberVersions is how many versions of a thing are compared with new ones.
const rememberVersions = 4

// checkVersionLocked holds that equal content has equal versions for all
// clients, and different content different ones. v.mu is held.
func (v *view) checkVersionLocked(b *body, of itemVersion, contentIs uint64, version, what string) {
	if version == "" {
		b.note(NoVersion, "%s", what)
		return
	}
	seen := v.versions[of]
	for _, s := range seen {
		switch {
		case s.content == contentIs && s.version != version:
			b.note(VersionDiffers, "%s has the versions %q and %q with the same content", what, s.version, version)
			return
		case s.content != contentIs && s.version == version:
			b.note(VersionReused, "%s has the version %q with two contents", what, version)
			return
		case s.content == contentIs:
			return
		}
	}
	if len(seen) == rememberVersions {
		seen = append(seen[:0], seen[1:]...)
	}
	v.versions[of] = append(seen, versionOf{contentIs, version})
}
