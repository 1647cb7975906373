package resource

import (
	"bytes"
	"slices"
)

// Share returns what a holder of r may keep instead, so that memory which r and o have in common is
// there once: o itself if they are equal, a copy of r that uses the names and bytes of o if only the
// versions or the lifetimes differ, and otherwise r. It compares the bytes, not only the digests.
func (r *Resource) Share(o *Resource) *Resource {
	switch {
	case r == o:
		return o
	case r.member != o.member || r.Name != o.Name || r.Endpoints != o.Endpoints || r.otherType != o.otherType || r.DoNotCache != o.DoNotCache,
		(r.Body == nil) != (o.Body == nil) || !bytes.Equal(r.Body, o.Body) || !bytes.Equal(r.Extra, o.Extra) || !slices.Equal(r.Aliases, o.Aliases):
		return r
	case r.Version == o.Version && r.TTL == o.TTL:
		return o
	}
	shared := *o
	shared.Version, shared.TTL = r.Version, r.TTL
	return &shared
}
