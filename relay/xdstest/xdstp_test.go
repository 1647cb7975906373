package xdstest

import "testing"

// TestGlobs: the automatic client and origin agree on what globs are, in every
// spelling.
func TestGlobs(t *testing.T) {
	o := NewStateOrigin(t, nil)
	name := func(id string, params ...string) string { return URN("o", EndpointType, id, params...) }
	o.Set("", Endpoints(name("a/x"), "127.0.0.1:1"), Endpoints(name("a/b/x"), "127.0.0.1:1"), Endpoints(name("c/x", "s=1", "r=2"), "127.0.0.1:1"))
	a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: Delta})
	a.Subscribe(EndpointType, name("a/*"), name("c/%2A", "s=1", "r=2"), name("empty/*"))
	o.WaitConverged(t, "", a)
	if n := len(a.Held(EndpointType)); n != 2 {
		t.Errorf("%d resources are held, expected 2: %v", n, a)
	}
	o.Remove("", EndpointType, name("a/%78"))
	o.Set("", Endpoints(name("empty/x"), "127.0.0.1:1"))
	o.WaitConverged(t, "", a)
	a.Reconnect()
	o.Set("", Endpoints(name("a/y"), "127.0.0.1:1"))
	o.WaitConverged(t, "", a)
	a.Unsubscribe(EndpointType, name("c/*", "r=2", "s=1"))
	o.WaitConverged(t, "", a)
	if n := len(a.Held(EndpointType)); n != 2 {
		t.Errorf("%d resources are held, expected 2: %v", n, a)
	}
	a.CheckViolations(t)

	s := Dial(t, o.Addr()).Open(Delta)
	s.Subscribe(EndpointType, name("none/*")) // G7
	f := s.Recv(t)
	if len(f.Removed) != 1 || f.Removed[0] != name("none/*") || len(f.Resources) > 0 {
		t.Errorf("an empty glob: %v", f)
	}
}
