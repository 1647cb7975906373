package resource

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the discovery messages, as table A-1's notes list them.
const (
	anyTypeURL, anyValue = 1, 2

	resVersion, resBody, resName, resAliases, resTTL, resNameDetail = 1, 2, 3, 4, 6, 8

	clusterType, clusterEDS, clusterEDSName = 2, 3, 2
	clusterTypeEDS                          = 3
)

// Invalid is a resource that cannot be relayed, with the reason (C5).
type Invalid struct {
	// Name is the resource's name, or its position in the response where no
	// name could be read.
	Name string
	// Err says what is wrong with it.
	Err error
}

func (i Invalid) Error() string { return fmt.Sprintf("resource %q: %v", i.Name, i.Err) }

var errTruncated = errors.New("the protobuf encoding is cut off or malformed")

// eachField calls f for every field of b. v holds the contents of a
// length-delimited field and is nil otherwise; n holds a varint's value; raw
// is the whole encoded field with its tag.
func eachField(b []byte, f func(num protowire.Number, typ protowire.Type, v []byte, n uint64, raw []byte) error) error {
	for len(b) > 0 {
		num, typ, tagLen := protowire.ConsumeTag(b)
		if tagLen < 0 {
			return errTruncated
		}
		valLen := protowire.ConsumeFieldValue(num, typ, b[tagLen:])
		if valLen < 0 {
			return errTruncated
		}
		var v []byte
		var n uint64
		switch typ {
		case protowire.BytesType:
			v, _ = protowire.ConsumeBytes(b[tagLen:])
			if v == nil {
				v = []byte{}
			}
		case protowire.VarintType:
			n, _ = protowire.ConsumeVarint(b[tagLen:])
		}
		if err := f(num, typ, v, n, b[:tagLen+valLen]); err != nil {
			return err
		}
		b = b[tagLen+valLen:]
	}
	return nil
}

// text returns v as a string, or an error if proto3 would not accept it.
func text(field string, v []byte) (string, error) {
	if v == nil {
		return "", fmt.Errorf("%s is not a string", field)
	}
	if !utf8.Valid(v) {
		return "", fmt.Errorf("%s is not valid UTF-8", field)
	}
	return string(v), nil
}

// splitAny returns the parts of an encoded google.protobuf.Any.
func splitAny(b []byte) (url string, value []byte, err error) {
	err = eachField(b, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, _ []byte) (err error) {
		switch num {
		case anyTypeURL:
			url, err = text("type_url of the Any", v)
		case anyValue:
			if v == nil {
				return errors.New("value of the Any is not a byte string")
			}
			value = v
		}
		return err
	})
	return url, value, err
}

// bodyName reads the name field of a body, and checks on the way that its
// fields can be told apart at all (C5).
func bodyName(field protowire.Number, value []byte) (name string, err error) {
	err = eachField(value, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, _ []byte) (err error) {
		if num == field {
			name, err = text("the name field of the body", v)
		}
		return err
	})
	return name, err
}

// endpointsOf reads the name of the endpoint set that an encoded Cluster of
// type EDS asks for: eds_cluster_config.service_name, or the cluster's own
// name (E3). Anything that it cannot read gives "".
func endpointsOf(name string, cluster []byte) string {
	isEDS, service := false, ""
	_ = eachField(cluster, func(num protowire.Number, _ protowire.Type, v []byte, n uint64, _ []byte) error {
		switch num {
		case clusterType:
			isEDS = n == clusterTypeEDS
		case clusterEDS:
			return eachField(v, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, _ []byte) error {
				if num == clusterEDSName {
					service = string(v)
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case !isEDS:
		return ""
	case service != "":
		return service
	}
	return name
}

// decodeBody reads a bare resource: an encoded Any whose body names it (A2).
func decodeBody(t *Type, anyBytes []byte) (Resource, error) {
	url, value, err := splitAny(anyBytes)
	if err != nil {
		return Resource{}, err
	}
	if url != t.URL {
		return Resource{}, fmt.Errorf("the body has type %q, expected %q", url, t.URL)
	}
	r := Resource{Body: append([]byte(nil), anyBytes...)}
	if t.NameField == 0 {
		return r, eachField(value, func(protowire.Number, protowire.Type, []byte, uint64, []byte) error { return nil })
	}
	if r.Name, err = bodyName(t.NameField, value); err != nil {
		return r, err
	}
	if t.URL == ClusterURL {
		r.Endpoints = endpointsOf(r.Name, value)
	}
	return r, nil
}

// decodeWrapped reads an encoded envoy.service.discovery.v3.Resource.
func decodeWrapped(t *Type, b []byte) (r Resource, err error) {
	var body []byte
	var detailName string
	err = eachField(b, func(num protowire.Number, _ protowire.Type, v []byte, _ uint64, raw []byte) (err error) {
		switch num {
		case resVersion:
			r.Version, err = text("version", v)
		case resName:
			r.Name, err = text("name", v)
		case resBody:
			if v == nil {
				return errors.New("resource is not a message")
			}
			body = append(body, v...) // repeated singular messages merge
		case resTTL:
			r.TTL, err = duration(v)
		case resAliases:
			var alias string
			alias, err = text("aliases", v)
			r.Aliases = append(r.Aliases, alias)
			r.Extra = append(r.Extra, raw...)
		case resNameDetail:
			detailName, err = bodyName(1, v)
			r.Extra = append(r.Extra, raw...)
		default:
			r.Extra = append(r.Extra, raw...)
		}
		return err
	})
	if r.Name == "" {
		r.Name = detailName
	}
	if err != nil || body == nil {
		return r, err
	}
	bare, err := decodeBody(t, body)
	if err != nil {
		return r, err
	}
	if r.Name == "" {
		r.Name = bare.Name
	}
	if t.NamedByBody() && r.Name != bare.Name { // A3
		return r, fmt.Errorf("the envelope's name differs from the name %q in the body", bare.Name)
	}
	r.Body, r.Endpoints = bare.Body, bare.Endpoints
	return r, nil
}

// duration reads an encoded google.protobuf.Duration.
func duration(b []byte) (time.Duration, error) {
	var d time.Duration
	err := eachField(b, func(num protowire.Number, _ protowire.Type, _ []byte, n uint64, _ []byte) error {
		switch num {
		case 1:
			if s := int64(n); s < 0 || s > int64(24*365*time.Hour/time.Second) {
				return fmt.Errorf("ttl of %d s is out of range, expected 0 to a year", s)
			}
			d += time.Duration(n) * time.Second
		case 2:
			if ns := int64(n); ns < 0 || ns >= int64(time.Second) {
				return fmt.Errorf("ttl has %d ns, expected 0 to 999,999,999", ns)
			}
			d += time.Duration(n)
		}
		return nil
	})
	return d, err
}
