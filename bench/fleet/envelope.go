package fleet

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/bench/fleet/h2"
)

// Field numbers of DiscoveryResponse and DeltaDiscoveryResponse.
const (
	rspVersion, rspResource, rspType, rspNonce = 1, 2, 4, 5
	rspRemoved                                 = 6 // delta only
)

// envelope is what is the client's own in a response, and what identifies the
// rest. It refers to the message.
type envelope struct {
	url, nonce, version []byte
	// hash is that of everything but the nonce.
	hash uint64
}

// beginning is what is known of responses up to the nonce.
type beginning struct {
	url, version []byte
	size         int // up to the nonce
	hash         uint64
}

var errEncoding = errors.New("its encoding is cut off or malformed")

// readEnvelope looks through the fields of a response, not into them. first is
// how much of it comes before the nonce, -1 if there is none.
func readEnvelope(m []byte) (e envelope, first int, err error) {
	first = -1
	err = e.read(m, func(at int) {
		if first < 0 {
			first = at
		}
	})
	return e, first, err
}

// read looks through what follows, and calls nonce where the nonce begins.
func (e *envelope) read(m []byte, nonce func(at int)) error {
	from := 0
	for at := 0; at < len(m); {
		tag, n := protowire.ConsumeVarint(m[at:])
		if n < 0 {
			return errEncoding
		}
		num, typ := protowire.DecodeTag(tag)
		if typ != protowire.BytesType {
			k := protowire.ConsumeFieldValue(num, typ, m[at+n:])
			if k < 0 {
				return errEncoding
			}
			at += n + k
			continue
		}
		v, k := protowire.ConsumeBytes(m[at+n:])
		if k < 0 || num <= 0 {
			return errEncoding
		}
		end := at + n + k
		switch num {
		case rspVersion:
			e.version = v
		case rspType:
			e.url = v
		case rspNonce:
			if nonce != nil {
				nonce(at)
			}
			e.nonce = v
			if at > from {
				e.hash = mix(e.hash, xxhash.Sum64(m[from:at]))
			}
			from = end
		}
		at = end
	}
	e.hash = mix(e.hash, xxhash.Sum64(m[from:]))
	return nil
}

// readMessage reads the envelope of a response of which others may have got the
// greater part, too. The scratch space is used for the rest, and is part of the
// result.
func readMessage(m *h2.Message, scratch []byte) (e envelope, err error) {
	if m.Chain == nil {
		e, _, err = readEnvelope(m.Own)
		return e, err
	}
	if k, ok := m.Chain.Known.Load().(*beginning); ok && k.size <= m.Shared {
		e = envelope{url: k.url, version: k.version, hash: k.hash}
		err = e.read(m.AppendFrom(scratch, k.size), nil)
		return e, err
	}
	all := whole(m)
	e, first, err := readEnvelope(all)
	if err == nil && first > 0 && first <= m.Shared {
		m.Chain.Known.Store(&beginning{url: e.url, version: e.version, size: first, hash: mix(0, xxhash.Sum64(all[:first]))})
	}
	return e, err
}

// whole is a message in one piece.
func whole(m *h2.Message) []byte {
	if m.Chain == nil {
		return m.Own
	}
	return m.AppendFrom(make([]byte, 0, m.Len()), 0)
}

// mix adds a hash or a number to others in order. Its results can be summed:
// sums of different ones differ (it is the finalizer of splitmix64).
func mix(h, next uint64) uint64 {
	h = (h+0x9e3779b97f4a7c15)*0xff51afd7ed558ccd ^ next
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// eachField calls f for every length-delimited field of a message.
func eachField(m []byte, f func(num protowire.Number, v []byte) error) error {
	for len(m) > 0 {
		num, typ, n := protowire.ConsumeTag(m)
		if n < 0 {
			return errEncoding
		}
		m = m[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, m); n < 0 {
				return errEncoding
			}
			m = m[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(m)
		if n < 0 {
			return errEncoding
		}
		if err := f(num, v); err != nil {
			return err
		}
		m = m[n:]
	}
	return nil
}

// packed is a resource as a response carries it.
type packed struct {
	name, version string
	url, value    []byte // of the Any
	body          bool   // there is one
}

// Field numbers of Resource and Any, and of the name in every resource.
const (
	resVersion, resBody, resName = 1, 2, 3
	anyType, anyValue            = 1, 2
	bodyName                     = 1
)

// readResource takes a resource of a response apart: a Resource on delta, an
// Any otherwise, where the body has the name.
func readResource(b []byte, delta bool) (p packed, err error) {
	body := b
	if delta {
		body = nil
		err = eachField(b, func(num protowire.Number, v []byte) error {
			switch num {
			case resVersion:
				p.version = string(v)
			case resBody:
				body = v
			case resName:
				p.name = string(v)
			}
			return nil
		})
		if err != nil {
			return p, err
		}
	}
	if body == nil {
		return p, nil
	}
	p.body = true
	err = eachField(body, func(num protowire.Number, v []byte) error {
		switch num {
		case anyType:
			p.url = v
		case anyValue:
			p.value = v
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	inner := ""
	err = eachField(p.value, func(num protowire.Number, v []byte) error {
		if num == bodyName && inner == "" {
			inner = string(v)
		}
		return nil
	})
	if err == nil && delta && inner != p.name {
		err = fmt.Errorf("the body has the name %q", inner)
	}
	p.name = inner
	return p, err
}
