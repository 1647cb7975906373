package resource

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// adding decodes the resources of a response, and sorts out names that appear twice. Names at different
// places of the earlier order differ, so only the others are looked up: a server that sends 100,000
// resources again because one has changed usually keeps their order.
type adding struct {
	response *Response
	delta    bool
	earlier  Earlier
	places   Places
	// seen has the canonical names of the resources that are not at a place of the order.
	seen map[string]struct{}
}

// all decodes raw. It reports false if a name may appear twice, which it can only judge without an order.
func (a *adding) all(raw [][]byte) bool {
	r := a.response
	r.Resources = make([]*Resource, 0, len(raw))
	a.seen = make(map[string]struct{}, len(raw)-min(len(raw), a.earlier.Places))
	for i, b := range raw {
		if a.earlier.Places > 0 && a.places.Lost() && !a.leaveOrder(len(raw)) {
			return false
		}
		if res, err := a.one(b); err != nil {
			if res.Name == "" {
				res.Name = fmt.Sprintf("#%d", i)
			}
			r.Invalid = append(r.Invalid, Invalid{Name: res.Name, Index: i, Err: err})
		}
	}
	if a.earlier.Places == 0 || len(a.seen) == 0 {
		return true
	}
	others := 0
	for _, res := range r.Resources {
		if _, is := a.seen[res.Key]; is {
			others++
		}
	}
	return others == len(a.seen)
}

// leaveOrder looks up all names from now on, because the order is another one. It reports false if a name
// appears twice.
func (a *adding) leaveOrder(room int) bool {
	a.earlier.Places = 0
	a.seen = make(map[string]struct{}, room)
	for _, res := range a.response.Resources {
		a.seen[res.Key] = struct{}{}
	}
	return len(a.seen) == len(a.response.Resources)
}

// one decodes a resource, and adds it to the response unless it is invalid. With an error it returns what
// is known of the resource.
func (a *adding) one(b []byte) (Resource, error) {
	r := a.response
	same, place := a.find(b)
	if same != nil && a.isNew(same.Key, place) {
		r.Resources = append(r.Resources, same)
		return Resource{}, nil
	}
	res, err := decodeOne(r.Type, b, a.delta)
	if err == nil && res.Name == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		return res, err
	}
	if !a.isNew(Canonical(res.Name), place) {
		return res, errors.New("the name appears twice in one response") // B29
	}
	r.Resources = append(r.Resources, New(res))
	return Resource{}, nil
}

// isNew reports whether a canonical name has not been seen, and notes it. at is the earlier resource at
// its place; nil if it is at none.
func (a *adding) isNew(key string, at *Resource) bool {
	if at != nil && at.Key == key {
		return true
	}
	_, twice := a.seen[key]
	if !twice {
		a.seen[key] = struct{}{}
	}
	return !twice
}

// find returns the earlier resource that decoding an Any would yield again, nil for none, and the one at
// its place. It guesses the name, since the bytes decide.
func (a *adding) find(b []byte) (same, at *Resource) {
	if a.earlier.Get == nil {
		return nil, nil
	}
	value, ok := secondField(b)
	if !ok {
		return nil, nil
	}
	f, err := firstField(value)
	if err != nil || f.tag != protowire.EncodeTag(a.response.Type.NameField, protowire.BytesType) {
		return nil, nil
	}
	is := func(r *Resource) bool {
		return r != nil && r.derived && r.TTL == 0 && !r.DoNotCache && r.Name == string(f.bytes) && bytes.Equal(r.Body, b)
	}
	place, ok := a.places.Seek(a.earlier.Places, func(place int) bool {
		r := a.earlier.At(place)
		return r != nil && r.Name == string(f.bytes)
	})
	if ok {
		if at = a.earlier.At(place); is(at) {
			return at, at
		}
	}
	if same = a.earlier.Get(f.bytes); is(same) {
		return same, at
	}
	return nil, at
}

// secondField returns the value of the second field of an encoded message, if it has two, both of
// bytes.
func secondField(b []byte) (value []byte, ok bool) {
	first, err := firstField(b)
	if err != nil {
		return nil, false
	}
	second, err := firstField(b[len(first.raw):])
	return second.bytes, err == nil && second.tag == anyValue
}
