package resource_test

import (
	"testing"
	"time"
	"unsafe"

	"xdsrelay/relay/resource"
)

// TestShare: only what is equal to the byte is shared.
func TestShare(t *testing.T) {
	build := func(edit func(*resource.Resource)) *resource.Resource {
		r := resource.Resource{Name: "a", Version: "1", Body: []byte("body"), Extra: []byte{0x22, 1, 'b'}, Aliases: []string{"b"}, Endpoints: "e", TTL: time.Minute}
		edit(&r)
		return resource.New(r)
	}
	held := build(func(*resource.Resource) {})
	for name, c := range map[string]struct {
		edit  func(*resource.Resource)
		whole bool // the held one is taken
		bytes bool // its bytes are
	}{
		"equal":       {func(*resource.Resource) {}, true, true},
		"version":     {func(r *resource.Resource) { r.Version = "2" }, false, true},
		"lifetime":    {func(r *resource.Resource) { r.TTL = time.Hour }, false, true},
		"name":        {func(r *resource.Resource) { r.Name = "b" }, false, false},
		"body":        {func(r *resource.Resource) { r.Body = []byte("Body") }, false, false},
		"no body":     {func(r *resource.Resource) { r.Body = nil }, false, false},
		"envelope":    {func(r *resource.Resource) { r.Extra = []byte{0x22, 1, 'c'} }, false, false},
		"aliases":     {func(r *resource.Resource) { r.Aliases = []string{"c"} }, false, false},
		"endpoints":   {func(r *resource.Resource) { r.Endpoints = "f" }, false, false},
		"do not keep": {func(r *resource.Resource) { r.DoNotCache = true }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := build(c.edit)
			got := r.Share(held)
			if (got == held) != c.whole {
				t.Errorf("the held resource was taken: %t, expected %t", got == held, c.whole)
			}
			if shared := len(got.Body) > 0 && unsafe.SliceData(got.Body) == unsafe.SliceData(held.Body); shared != c.bytes {
				t.Errorf("the bytes are shared: %t, expected %t", shared, c.bytes)
			}
			if got.Version != r.Version || got.TTL != r.TTL || got.Name != r.Name || got.Member() != r.Member() || got.Endpoints != r.Endpoints {
				t.Errorf("%+v became %+v", r, got)
			}
		})
	}
}

// TestShareComparesBytes: a digest that is equal proves nothing of the bytes.
func TestShareComparesBytes(t *testing.T) {
	held := resource.New(resource.Resource{Name: "a", Version: "1", Body: []byte("body")})
	other := resource.New(resource.Resource{Name: "a", Version: "1", Body: []byte("body")})
	copy(other.Body, "evil") // as if another body had the same digest
	if got := other.Share(held); got != other {
		t.Errorf("%q became %q", other.Body, got.Body)
	}
}
