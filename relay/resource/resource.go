package resource

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is one named resource at one version. It is immutable once built
// and shared by everybody who sends it.
type Resource struct {
	// Name is what frames call the resource: as the origin spells it.
	Name string
	// Key identifies the resource within its type: the canonical form of Name,
	// the same string where they are equal (G1). [New] sets it.
	Key string
	// Version is what delta clients are told: the origin's own (D14), or a
	// content digest where it gave none (D1).
	Version string
	// Body is the encoded google.protobuf.Any as the origin sent it; nil for
	// the body-less answer to an unresolvable alias (B38).
	Body []byte
	// Extra holds the encoded envelope fields that the relay only carries:
	// aliases, cache_control, metadata, resource_name and unknown ones (A7).
	Extra []byte
	// TTL is the lifetime that the origin gave, counted from when it said so; 0
	// means none. It is no part of the content: the same resource is told again
	// with what is left (F3), by other nodes with another rest.
	TTL time.Duration
	// Aliases are other names by which the resource may be subscribed (B38),
	// canonical.
	Aliases []string
	// Endpoints is the name of the endpoint set that a Cluster of type EDS
	// refers to, "" otherwise (E3); canonical.
	Endpoints string

	// DoNotCache says that the origin forbids to keep or share the resource (K17).
	DoNotCache bool

	foreign bool   // see HasSotW
	content Digest // Body and Extra
	member  Digest // Key and content
}

// New completes r: names get their canonical forms, an empty Version is
// replaced by the content digest (D1, D14), except that of a heartbeat, and the
// digests are computed. r must not be changed afterwards.
func New(r Resource) *Resource {
	r.Key, r.Endpoints = Canonical(r.Name), Canonical(r.Endpoints)
	for i, a := range r.Aliases {
		r.Aliases[i] = Canonical(a)
	}
	r.content = digestOf(r.Body, r.Extra)
	switch {
	case r.Version != "" || r.Heartbeat():
	case len(r.Extra) == 0:
		r.Version = digestOf(r.Body).Hex()
	default:
		r.Version = r.content.Hex()
	}
	r.member = digestOf([]byte(r.Key), r.content[:])
	return &r
}

// Heartbeat reports whether r only says that the resource of its name lives on
// for its TTL (F6): it has a TTL and nothing else. Its version is that of the
// resource, as far as the origin gave one.
func (r *Resource) Heartbeat() bool {
	return r.Body == nil && r.TTL > 0 && len(r.Aliases) == 0
}

// HasSotW reports whether r has a form that SotW clients can be sent: a body,
// and one of its type, not a redirect or a list of resources (D8, G8).
func (r *Resource) HasSotW() bool { return r.Body != nil && !r.foreign }

// SameContent reports whether r and o would be the same to every client apart
// from their versions (D15) and lifetimes.
func (r *Resource) SameContent(o *Resource) bool { return r.content == o.content }

// Hollow reports whether r is an endpoint set without endpoints, or a route configuration
// without virtual hosts: an empty one says as much as its removal, and is all that a SotW
// control plane can say of a resource that goes by name. It reads all of the body.
func (r *Resource) Hollow() bool {
	url, body, err := splitAny(r.Body)
	switch {
	case r.Body == nil || err != nil:
		return false
	case url == EndpointURL:
		return !hasField(body, 2, func(locality []byte) bool {
			return hasField(locality, 2, nil) || hasField(locality, 7, nil) || hasField(locality, 8, nil)
		})
	case url == RouteURL:
		return !hasField(body, 2, nil) && !hasField(body, 9, nil) // virtual_hosts, vhds
	}
	return false
}

// hasField reports whether a message has a field of a number that is as it has to be;
// nil is for any.
func hasField(b []byte, number uint64, as func([]byte) bool) bool {
	err := eachField(b, func(f field) error {
		if f.tag == number<<3|uint64(protowire.BytesType) && (as == nil || as(f.bytes)) {
			return errEnough
		}
		return nil
	})
	return err != nil // what is broken is not empty: clients reject it
}

// Member is the digest of canonical name and content, for digests of whole sets (D7).
// It leaves the version out: an origin may give one content several versions,
// of which nodes that joined at different times hold different ones (D15, K11),
// or one version to several contents, which have to be told apart all the same.
func (r *Resource) Member() Digest { return r.member }

// resourceSize is what a Resource itself takes, in bytes.
const resourceSize = 184

// Size is roughly the memory that r holds, in bytes.
func (r *Resource) Size() int {
	n := resourceSize + len(r.Name) + len(r.Version) + len(r.Body) + len(r.Extra) + len(r.Endpoints)
	if r.Key != r.Name {
		n += len(r.Key)
	}
	for _, a := range r.Aliases {
		n += 16 + len(a)
	}
	return n
}
