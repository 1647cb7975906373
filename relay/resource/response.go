package resource

import (
	"bytes"
	"errors"
)

// Tags of DiscoveryResponse and DeltaDiscoveryResponse. They agree up to the nonce.
const (
	rspVersion, rspResources, rspTypeURL, rspNonce    = 1<<3 | 2, 2<<3 | 2, 4<<3 | 2, 5<<3 | 2
	sotwControlPlane, sotwErrors                      = 6<<3 | 2, 7<<3 | 2
	deltaRemoved, deltaControlPlane, deltaRemovedName = 6<<3 | 2, 7<<3 | 2, 8<<3 | 2
	deltaErrors                                       = 9<<3 | 2

	controlPlaneIdentifier = 1 // a field number
)

// Response is a decoded DiscoveryResponse or DeltaDiscoveryResponse.
type Response struct {
	// Type is the type of the response.
	Type *Type
	// Version is version_info (SotW) or system_version_info (delta).
	Version string
	// Nonce is what the answer must repeat.
	Nonce string
	// ControlPlane is control_plane.identifier.
	ControlPlane string
	// Resources are those that can be relayed, each name once.
	Resources []*Resource
	// Removed are the names in removed_resources, and those in removed_resource_names that are not
	// variants (delta only).
	Removed []string
	// RemovedNames are the entries of removed_resource_names (delta only).
	RemovedNames []About
	// Errors are the entries of resource_errors.
	Errors []About
	// Extra holds the encoded fields that this package does not know (delta only): they are
	// forwarded to delta clients (A7).
	Extra []byte
	// Invalid are those that cannot be relayed: the reason for a NACK (C5).
	Invalid []Invalid
	// Size is the length of the encoded response in bytes.
	Size int
	// Mark is set in a response of another node.
	Mark PeerMark
}

// Earlier is what was received before of a type.
type Earlier struct {
	// Get returns the resource of a name, nil if there is none. It must not keep the name. If Get is nil,
	// nothing was received before.
	Get func(name []byte) *Resource
	// At returns the resource at a place below Places of the order in which they were received, nil if it
	// is gone. The names at different places differ. They may be older than what Get returns.
	At     func(place int) *Resource
	Places int
}

// DecodeSotW decodes a DiscoveryResponse. Resources that are wrapped in a Resource message are
// unwrapped (C17). An error means that the whole message is malformed; single invalid resources are
// in Invalid. Nothing in the result refers to b. Resources that were received earlier with
// equal bytes are taken from there: a server sends everything again when one resource has changed.
// earlier is called with the type of the response, and may be nil.
func DecodeSotW(b []byte, earlier func(*Type) Earlier) (*Response, error) {
	return decode(b, false, false, earlier)
}

// DecodeDelta decodes a DeltaDiscoveryResponse; see [DecodeSotW].
func DecodeDelta(b []byte) (*Response, error) { return decode(b, true, false, nil) }

// decode is [DecodeSotW] and [DecodeDelta]; with peer, b is from another node.
func decode(b []byte, delta, peer bool, earlier func(*Type) Earlier) (*Response, error) {
	n, err := countEntries(b, delta)
	if err != nil {
		return nil, err
	}
	r := &Response{Size: len(b), Removed: withRoom[string](n.removed), RemovedNames: withRoom[About](n.removedNames), Errors: withRoom[About](n.errors)}
	raw := make([][]byte, 0, n.resources)
	about := func(list *[]About, read func(*About, []byte) error, b []byte) error {
		a := About{Raw: bytes.Clone(b)}
		*list = append(*list, a)
		return read(&(*list)[len(*list)-1], b)
	}
	var url string
	var controlPlane []byte
	err = eachField(b, func(f field) (err error) {
		switch {
		case f.tag == rspVersion:
			r.Version, err = text("version", f.bytes)
		case f.tag == rspResources:
			raw = append(raw, f.bytes)
		case f.tag == rspTypeURL:
			url, err = typeURL(f.bytes)
		case f.tag == rspNonce:
			r.Nonce, err = text("nonce", f.bytes)
		case delta && f.tag == deltaRemoved:
			r.Removed, err = appendText(r.Removed, "removed_resources", f.bytes)
		case !delta && f.tag == sotwControlPlane, delta && f.tag == deltaControlPlane:
			controlPlane = merge(controlPlane, f.bytes)
		case !delta && f.tag == sotwErrors, delta && f.tag == deltaErrors:
			err = about(&r.Errors, (*About).readError, f.bytes)
		case delta && f.tag == deltaRemovedName:
			err = about(&r.RemovedNames, (*About).readName, f.bytes)
		case delta:
			if peer {
				if mark, err := r.readMark(f); mark {
					return err
				}
			}
			r.Extra = append(r.Extra, f.raw...)
		}
		return err
	})
	if err == nil {
		r.ControlPlane, err = stringField(controlPlaneIdentifier, controlPlane)
	}
	if err != nil {
		return nil, err
	}
	if url == "" {
		return nil, errors.New("type_url is missing")
	}
	r.Type = TypeOf(url)
	for i, name := range r.Removed {
		if name == "" {
			r.Removed[i] = r.Type.OnlyName
		}
	}
	for _, a := range r.RemovedNames {
		if a.Variant == "" {
			r.Removed = append(r.Removed, a.Name)
		}
	}
	var of Earlier
	if earlier != nil {
		of = earlier(r.Type)
	}
	r.addResources(raw, delta, of)
	return r, nil
}

func (r *Response) addResources(raw [][]byte, delta bool, earlier Earlier) {
	if a := (adding{response: r, delta: delta, earlier: earlier}); a.all(raw) {
		return
	}
	r.Invalid, earlier.Places = nil, 0
	a := adding{response: r, delta: delta, earlier: earlier}
	a.all(raw)
}

// withRoom returns an empty list with capacity for n entries, nil for none.
func withRoom[E any](n int) []E {
	if n == 0 {
		return nil
	}
	return make([]E, 0, n)
}

func decodeOne(t *Type, b []byte, delta bool) (Resource, error) {
	if delta {
		return decodeWrapped(t, b)
	}
	url, value, err := splitAny(b)
	if err != nil {
		return Resource{}, err
	}
	if url != resourceWrapper || t.URL == resourceWrapper {
		return decodeBare(t, b)
	}
	r, err := decodeWrapped(t, value)
	// D1: the version is derived from the content. The version of a wrapper is ignored, since Envoy
	// and gRPC ignore it on SotW, too.
	r.Version = ""
	return r, err
}
