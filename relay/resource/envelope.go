package resource

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// Tags of envoy.service.discovery.v3.Resource, and of the few fields of other messages that the
// relay reads.
const (
	resVersion, resBody, resName, resAliases = 1<<3 | 2, 2<<3 | 2, 3<<3 | 2, 4<<3 | 2
	resTTL, resCacheControl, resNameDetail   = 6<<3 | 2, 7<<3 | 2, 8<<3 | 2

	detailName   = 1      // the number of ResourceName.name
	doNotCacheIs = 1 << 3 // CacheControl.do_not_cache

	clusterType, clusterEDS, clusterCustom = 2 << 3, 3<<3 | 2, 38<<3 | 2
	clusterTypeEDS                         = 3 // the value of Cluster.DiscoveryType
	edsServiceName                         = 2<<3 | 2
)

// Invalid is a resource that cannot be relayed, with the reason (C5).
type Invalid struct {
	// Name is the name of the resource, or its position in the response if the name cannot be
	// decoded.
	Name string
	// Index is its position in the response, from 0.
	Index int
	// Err is the reason.
	Err error
}

func (i Invalid) Error() string { return fmt.Sprintf("resource %q: %v", i.Name, i.Err) }

// Unwrap returns the reason alone.
func (i Invalid) Unwrap() error { return i.Err }

// decodeBare decodes a resource without an envelope: an encoded Any whose body has the name (A2).
func decodeBare(t *Type, b []byte) (r Resource, err error) {
	value, err := openBody(t, b)
	if err != nil {
		return r, err
	}
	if r.Name, err = bodyName(t, value); err != nil {
		return r, err
	}
	r.Body = bytes.Clone(b)
	r.Endpoints = endpointsOf(t, r.Name, value)
	return r, nil
}

// decodeWrapped decodes an envoy.service.discovery.v3.Resource.
func decodeWrapped(t *Type, b []byte) (r Resource, err error) {
	var body, ttl, detail, control []byte
	parts := false // Extra has messages
	err = eachField(b, func(f field) (err error) {
		switch f.tag {
		case resVersion:
			r.Version, err = text("version", f.bytes)
		case resName:
			r.Name, err = text("name", f.bytes)
		case resBody:
			body = merge(body, f.bytes)
		case resTTL:
			ttl = merge(ttl, f.bytes)
		case resAliases:
			r.Aliases, err = appendText(r.Aliases, "aliases", f.bytes)
			r.Extra = append(r.Extra, f.raw...)
		case resCacheControl:
			control, parts = merge(control, f.bytes), true
			r.Extra = append(r.Extra, f.raw...)
		case resNameDetail:
			detail, parts = merge(detail, f.bytes), true
			r.Extra = append(r.Extra, f.raw...)
		default: // A7
			parts = true
			r.Extra = append(r.Extra, f.raw...)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	if r.TTL, err = duration(ttl); err != nil {
		return r, err
	}
	err = eachField(control, func(f field) error {
		if f.tag == doNotCacheIs {
			r.DoNotCache = f.varint != 0
		}
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("cache_control: %w", err)
	}
	inDetail, err := stringField(detailName, detail)
	if err != nil {
		return r, fmt.Errorf("resource_name: %w", err)
	}
	if r.Name == "" {
		r.Name = inDetail
	}
	if r.Name == "" {
		r.Name = t.OnlyName
	}
	if parts {
		if err := r.checkExtra(); err != nil {
			return r, err
		}
	}
	if body == nil {
		return r, nil
	}
	err = r.takeBody(t, body)
	return r, err
}

// takeBody adds an encoded Any to a resource whose envelope is decoded.
func (r *Resource) takeBody(t *Type, body []byte) error {
	url, value, err := splitAny(body)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	r.otherType = url != t.URL && r.Name != "" && mayReplace(t, r.Name, url)
	if url != t.URL && !r.otherType {
		return wrongType(t, url)
	}
	if r.Name != "" && (r.otherType || !t.NamedByBody()) {
		// The name in the envelope is the identity, whatever the body says (A3).
		if _, err := stringField(0, value); err != nil {
			return fmt.Errorf("body: %w", err)
		}
		r.Body = body
		return nil
	}
	inner, err := bodyName(t, value)
	if err != nil {
		return err
	}
	if r.Name == "" {
		r.Name = inner
	}
	if r.Name != inner && Canonical(r.Name) != Canonical(inner) { // A3
		return fmt.Errorf("the envelope's name differs from the name %q in the body", inner)
	}
	r.Body, r.Endpoints = body, endpointsOf(t, r.Name, value)
	return nil
}

// openBody returns the value in an encoded Any of type t.
func openBody(t *Type, b []byte) ([]byte, error) {
	url, value, err := splitAny(b)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if url != t.URL {
		return nil, wrongType(t, url)
	}
	return value, nil
}

func wrongType(t *Type, url string) error {
	return fmt.Errorf("the body has type %q, expected %q", url, t.URL)
}

// redirectURL is the type of a body that says where to find the resource instead. The relay
// forwards it and does not follow it.
const redirectURL = TypePrefix + "xds.core.v3.ResourceLocator"

// mayReplace reports whether a body of the type url is allowed instead of one of type t under name:
// a redirect always is, and a list of resources if the name is one of a list (G8).
func mayReplace(t *Type, name, url string) bool {
	if url == redirectURL {
		return !t.V2 // J2
	}
	if url != t.URL+collection {
		return false
	}
	u, err := ParseURN(name)
	return err == nil && TypePrefix+u.Type == url
}

// bodyName decodes the name in a body. For a type without a name field it returns the name of its
// only resource, or "".
func bodyName(t *Type, value []byte) (string, error) {
	name, err := stringField(t.NameField, value)
	if err != nil {
		return "", fmt.Errorf("body: %w", err)
	}
	if name == "" {
		name = t.OnlyName
	}
	return name, nil
}

// endpointsOf decodes the name of the endpoint set that a Cluster of type EDS requests:
// eds_cluster_config.service_name, or the name of the cluster (E3). It returns "" for other cluster
// types, and for a malformed body.
func endpointsOf(t *Type, name string, body []byte) string {
	if t.EndpointType == "" {
		return ""
	}
	isEDS, service := false, ""
	err := eachField(body, func(f field) error {
		switch f.tag {
		case clusterType:
			isEDS = int32(f.varint) == clusterTypeEDS
		case clusterCustom: // shares a oneof with the type
			isEDS = false
		case clusterEDS:
			return eachField(f.bytes, func(f field) error {
				if f.tag == edsServiceName {
					service = string(f.bytes)
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil || !isEDS:
		return ""
	case service != "":
		return service
	}
	return name
}

// maxSeconds is the greatest number of seconds in a valid Duration message.
const maxSeconds = 315_576_000_000

// duration decodes a google.protobuf.Duration. A duration outside the range of time.Duration, 292
// years, becomes the longest one.
func duration(b []byte) (time.Duration, error) {
	var s int64
	var ns int32
	err := eachField(b, func(f field) error {
		switch f.tag {
		case durationSeconds:
			s = int64(f.varint)
		case durationNanos:
			ns = int32(f.varint)
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("ttl: %w", err)
	case s < 0 || s > maxSeconds:
		return 0, fmt.Errorf("a ttl of %d s, expected 0 to %d", s, int64(maxSeconds))
	case ns < 0 || int64(ns) >= int64(time.Second):
		return 0, fmt.Errorf("a ttl with %d ns, expected 0 to 999999999", ns)
	case s > (math.MaxInt64-int64(ns))/int64(time.Second):
		return math.MaxInt64, nil
	}
	return time.Duration(s)*time.Second + time.Duration(ns), nil
}
