package lastgood

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/shard"
)

// A record, before it is compressed, is a protobuf message with these fields. Readers skip fields
// that they do not know.
const (
	recKey      = 1 // string
	recAt       = 2 // when it was made, in milliseconds of Unix time
	recWildcard = 3 // bool: the resources are the complete wildcard set
	recGlob     = 4 // string, repeated: globs of which they are complete
	recLeg      = 5 // message, repeated
	recResponse = 6 // DeltaDiscoveryResponse: type and resources
	recHeld     = 7 // packed: for each resource the bits of the upstream streams that had it
	recEnds     = 8 // packed: pairs of the index of a resource and when it expires
	recErrored  = 9 // packed: indexes of resources for which clients may remember an error

	legOrigin  = 1 // string
	legNames   = 2 // bool
	legServer  = 3 // string
	legVersion = 4 // string
	legSource  = 5 // string
)

// EncodeNow encodes the state of a type of a key, whose times are moments of this process, with the
// time of day.
func EncodeNow(clock shard.Clock, key string, k cache.Snapshot) []byte {
	return Encode(key, clock.Now(), expiring(k, clock.Stamp))
}

// expiring returns k with the expiry times of its resources converted.
func expiring(k cache.Snapshot, convert func(time.Time) time.Time) cache.Snapshot {
	if !slices.ContainsFunc(k.Resources, func(r cache.SnapshotResource) bool { return !r.Expires.IsZero() }) {
		return k
	}
	k.Resources = slices.Clone(k.Resources)
	for i := range k.Resources {
		k.Resources[i].Expires = convert(k.Resources[i].Expires)
	}
	return k
}

// Encode encodes the state of a type of a key at a time, before compression and encryption. All
// times are by the same clock.
func Encode(key string, at time.Time, k cache.Snapshot) []byte {
	size := len(key) + 64
	rs := make([]*resource.Resource, len(k.Resources))
	var held, ends, errored []byte
	for i, one := range k.Resources {
		rs[i] = one.Resource
		size += one.Resource.WireSize() + 16
		held = protowire.AppendVarint(held, one.Streams)
		if !one.Expires.IsZero() {
			ends = protowire.AppendVarint(ends, uint64(i))
			ends = protowire.AppendVarint(ends, uint64(one.Expires.UnixMilli()))
		}
		if one.Errored {
			errored = protowire.AppendVarint(errored, uint64(i))
		}
	}
	response := resource.AppendDelta(make([]byte, 0, size), &resource.Message{Type: k.Type, Resources: rs})

	b := make([]byte, 0, len(response)+len(held)+len(ends)+1024)
	b = appendText(b, recKey, key)
	b = appendNumber(b, recAt, uint64(at.UnixMilli()))
	b = appendNumber(b, recWildcard, protowire.EncodeBool(k.Wildcard))
	for _, g := range k.Globs {
		b = appendText(b, recGlob, g)
	}
	for _, l := range k.Streams {
		var leg []byte
		leg = appendText(leg, legOrigin, l.Origin)
		leg = appendNumber(leg, legNames, protowire.EncodeBool(l.Names))
		leg = appendText(leg, legServer, l.Server)
		leg = appendText(leg, legVersion, l.Version)
		leg = appendText(leg, legSource, l.Source)
		b = appendBytes(b, recLeg, leg)
	}
	if len(errored) > 0 {
		b = appendBytes(b, recErrored, errored)
	}
	b = appendBytes(b, recResponse, response)
	b = appendBytes(b, recHeld, held)
	return appendBytes(b, recEnds, ends)
}

func appendText(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func appendNumber(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// Decode decodes the result of Encode for a key and a type, and returns its time. Any other input
// is an error; no number in it is trusted.
func Decode(b []byte, key, url string) (k cache.Snapshot, at time.Time, err error) {
	var ofKey string
	var response, held, ends, errored []byte
	err = eachField(b, func(n protowire.Number, number uint64, v []byte) (err error) {
		switch n {
		case recKey:
			ofKey = string(v)
		case recAt:
			at = time.UnixMilli(int64(number))
		case recWildcard:
			k.Wildcard = protowire.DecodeBool(number)
		case recGlob:
			k.Globs = append(k.Globs, string(v))
		case recLeg:
			leg, err := decodeLeg(v)
			k.Streams = append(k.Streams, leg)
			return err
		case recResponse:
			response = v
		case recHeld:
			held = v
		case recEnds:
			ends = v
		case recErrored:
			errored = v
		}
		return nil
	})
	switch {
	case err != nil:
		return k, at, err
	case ofKey != key:
		return k, at, errors.New("the record is of another key")
	case len(k.Streams) == 0 || len(k.Streams) > maxLegs:
		return k, at, fmt.Errorf("%d upstream streams, expected 1 to %d", len(k.Streams), maxLegs)
	}
	r, err := resource.DecodeDelta(response)
	switch {
	case err != nil:
		return k, at, fmt.Errorf("the resources: %w", err)
	case len(r.Invalid) > 0:
		return k, at, r.Invalid[0]
	case r.Type.URL != url:
		return k, at, errors.New("the record is of another type")
	}
	k.Type, k.Resources = r.Type, make([]cache.SnapshotResource, len(r.Resources))
	for i, res := range r.Resources {
		if res.DoNotCache {
			return k, at, errors.New("a resource that must not be kept")
		}
		k.Resources[i].Resource = res
	}
	if err := takeHeld(k.Resources, held); err != nil {
		return k, at, err
	}
	if err := takeEnds(k.Resources, ends); err != nil {
		return k, at, err
	}
	return k, at, takeErrored(k.Resources, errored)
}

// maxLegs is how many upstream streams a key may have: bits of a uint64.
const maxLegs = 64

func decodeLeg(b []byte) (l cache.SnapshotStream, err error) {
	err = eachField(b, func(n protowire.Number, number uint64, v []byte) error {
		switch n {
		case legOrigin:
			l.Origin = string(v)
		case legNames:
			l.Names = protowire.DecodeBool(number)
		case legServer:
			l.Server = string(v)
		case legVersion:
			l.Version = string(v)
		case legSource:
			l.Source = string(v)
		}
		return nil
	})
	return l, err
}

// takeHeld decodes which upstream streams had each resource.
func takeHeld(rs []cache.SnapshotResource, packed []byte) error {
	i := 0
	for ; len(packed) > 0; i++ {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 || i == len(rs) {
			break
		}
		rs[i].Streams, packed = v, packed[n:]
	}
	if i < len(rs) || len(packed) > 0 {
		return fmt.Errorf("expected for each of %d resources by whom it was held", len(rs))
	}
	return nil
}

// takeEnds decodes when resources expire.
func takeEnds(rs []cache.SnapshotResource, packed []byte) error {
	for len(packed) > 0 {
		i, n := protowire.ConsumeVarint(packed)
		if n < 0 || i >= uint64(len(rs)) {
			return errors.New("the end of a lifetime: expected the place of a resource")
		}
		ms, m := protowire.ConsumeVarint(packed[n:])
		if m < 0 {
			return errors.New("the end of a lifetime is cut off")
		}
		rs[i].Expires, packed = time.UnixMilli(int64(ms)), packed[n+m:]
	}
	return nil
}

// takeErrored decodes for which resources clients may remember an error.
func takeErrored(rs []cache.SnapshotResource, packed []byte) error {
	for len(packed) > 0 {
		i, n := protowire.ConsumeVarint(packed)
		if n < 0 || i >= uint64(len(rs)) {
			return errors.New("an error that clients may remember: expected the place of a resource")
		}
		rs[i].Errored, packed = true, packed[n:]
	}
	return nil
}

// eachField iterates over the fields of an encoded message: numbers and bytes.
func eachField(b []byte, f func(n protowire.Number, number uint64, v []byte) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errCutOff
		}
		b = b[size:]
		var number uint64
		var v []byte
		switch typ {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 {
			return errCutOff
		}
		b = b[size:]
		if err := f(n, number, v); err != nil {
			return err
		}
	}
	return nil
}

var errCutOff = errors.New("cannot read the record: truncated or not a record")
