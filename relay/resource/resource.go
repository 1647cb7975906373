package resource

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is one named resource at one version. It is immutable once built and shared by all
// streams that send it.
type Resource struct {
	// Name is the name in responses: in the spelling of the control plane.
	Name string
	// Key identifies the resource within its type: the canonical form of Name, the same string if
	// they are equal (G1). [New] sets it.
	Key string
	// Version is the version that delta clients are sent: that of the control plane (D14), or a
	// content digest if it sent none (D1).
	Version string
	// Body is the encoded google.protobuf.Any as the control plane sent it; nil for the answer
	// without a body to an unresolvable alias (B38).
	Body []byte
	// Extra holds the encoded envelope fields that the relay only forwards: aliases, cache_control,
	// metadata, resource_name and unknown ones (A7).
	Extra []byte
	// TTL is the lifetime from the control plane, counted from when it was sent; 0 means none. It
	// is not part of the content: the same resource is sent again with the remaining TTL (F3),
	// which differs between nodes.
	TTL time.Duration
	// Aliases are other names by which clients may subscribe to the resource (B38), canonical.
	Aliases []string
	// Endpoints is the name of the endpoint set that a Cluster of type EDS refers to, "" otherwise
	// (E3); canonical.
	Endpoints string

	// DoNotCache is true if the control plane forbids caching or sharing the resource (K17).
	DoNotCache bool

	otherType bool   // see HasSotW
	derived   bool   // Version is that of Body alone
	content   Digest // of Body and Extra
	member    Digest // of Key and content
}

// New completes r: names get their canonical forms, an empty Version is replaced by the content
// digest (D1, D14), except for a heartbeat, and the digests are computed. r must not be changed
// afterwards.
func New(r Resource) *Resource {
	r.Key, r.Endpoints = Canonical(r.Name), Canonical(r.Endpoints)
	for i, a := range r.Aliases {
		r.Aliases[i] = Canonical(a)
	}
	r.content = digestOf(r.Body, r.Extra)
	switch {
	case r.Version != "" || r.Heartbeat():
	case len(r.Extra) == 0:
		r.Version, r.derived = digestOf(r.Body).Hex(), true
	default:
		r.Version = r.content.Hex()
	}
	r.member = digestOf([]byte(r.Key), r.content[:])
	return &r
}

// Heartbeat reports whether r only renews the TTL of the resource of its name (F6): it has a TTL
// and nothing else. Its version is that of the resource, if the control plane sent one.
func (r *Resource) Heartbeat() bool {
	return r.Body == nil && r.TTL > 0 && len(r.Aliases) == 0
}

// HasSotW reports whether r has a form for SotW clients: a body, and one of its type, not a
// redirect or a list of resources (D8, G8).
func (r *Resource) HasSotW() bool { return r.Body != nil && !r.otherType }

// SameContent reports whether r and o would be the same for every client apart from their versions
// (D15) and lifetimes.
func (r *Resource) SameContent(o *Resource) bool { return r.content == o.content }

// Hollow reports whether r is an endpoint set without endpoints, or a route configuration without
// virtual hosts. An empty one has the same effect as a removal, and is the only way in which a SotW
// control plane can remove a resource that is subscribed by name. Hollow reads the whole body.
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

// hasField reports whether a message has a field with a number for which as returns true; nil
// accepts any.
func hasField(b []byte, number uint64, as func([]byte) bool) bool {
	err := eachField(b, func(f field) error {
		if f.tag == number<<3|uint64(protowire.BytesType) && (as == nil || as(f.bytes)) {
			return errEnough
		}
		return nil
	})
	return err != nil // malformed is not empty: clients reject it
}

// Member returns the digest of canonical name and content, for digests of whole sets (D7). It
// excludes the version: a control plane may give the same content several versions, so nodes that
// joined at different times have different ones (D15, K11), or the same version to different
// contents, which must be distinguished nevertheless.
func (r *Resource) Member() Digest { return r.member }

// resourceSize is the size of a Resource itself, in bytes.
const resourceSize = 184

// Size returns roughly the memory that r uses, in bytes.
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
