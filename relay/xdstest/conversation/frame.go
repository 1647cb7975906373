package conversation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// take checks what must hold for every frame that any client gets, and makes it
// the newest one.
func (c *client) take(s *stream, t *topic, f *xdstest.Frame) error {
	if err := c.check(s, t, f); err != nil {
		return fmt.Errorf("%s got %s: %w", c.name, c.r.describe(f), err)
	}
	s.nonces[f.Nonce] = true
	t.last = f
	return nil
}

// check is what every frame must fulfil.
func (c *client) check(s *stream, t *topic, f *xdstest.Frame) error {
	switch {
	case c.maxFrame > 0 && proto.Size(f.Raw) > c.maxFrame:
		return fmt.Errorf("a frame of %d bytes, which is more than %d", proto.Size(f.Raw), c.maxFrame)
	case f.Nonce == "":
		return fmt.Errorf("a frame without a nonce (B5)")
	case s.nonces[f.Nonce]:
		return fmt.Errorf("the nonce %q was used before on the stream (B5)", f.Nonce)
	case !f.Delta && f.Version == "":
		return fmt.Errorf("a SotW frame without a version (D7)")
	}
	seen := make(map[string]bool)
	for _, r := range f.Resources {
		switch {
		case seen[r.Name]:
			return fmt.Errorf("%s is there twice (B29)", r.Name)
		case r.Body != nil && !mayHold(f.TypeURL, r.Body.GetTypeUrl()):
			return fmt.Errorf("%s is a %s (B30)", r.Name, r.Body.GetTypeUrl())
		case f.Delta && r.Version == "" && r.Body != nil:
			return fmt.Errorf("%s has no version (D14)", r.Name)
		case !slices.ContainsFunc(append([]string{r.Name}, r.Aliases...), t.covers):
			return fmt.Errorf("%s was not asked for (B31)", r.Name)
		}
		seen[r.Name] = true
	}
	for _, n := range f.Removed {
		if seen[n] {
			return fmt.Errorf("%s is there twice (B29)", n)
		}
		seen[n] = true
	}
	return nil
}

// mayHold reports whether a body may stand in a frame: one of the frame's type,
// a list of them, or a redirect (G8).
func mayHold(frame, body string) bool {
	return body == frame || body == frame+"Collection" || body == "type.googleapis.com/xds.core.v3.ResourceLocator"
}

// apply does what a client does with a frame that it likes; the answer makes it
// last.
func (c *client) apply(s *stream, t *topic, f *xdstest.Frame) {
	t.waiting = f
	if !s.delta && xdstest.FullState(f.TypeURL) {
		clear(t.shown)
	}
	for _, r := range f.Resources {
		if r.Body == nil {
			continue // a heartbeat, or an alias that leads nowhere
		}
		t.shown[r.Name] = holding{tag: c.r.contents.tagOf(r.Body), version: r.Version}
		delete(t.gone, r.Name)
	}
	for _, n := range f.Removed {
		delete(t.shown, n)
		t.gone[n] = true
	}
}

func controlPlane(f *xdstest.Frame) string {
	switch m := f.Raw.(type) {
	case *discoveryv3.DiscoveryResponse:
		return m.GetControlPlane().GetIdentifier()
	case *discoveryv3.DeltaDiscoveryResponse:
		return m.GetControlPlane().GetIdentifier()
	}
	return ""
}

// endsUpWith takes and acknowledges whatever comes until the client holds just
// the items and, on delta, was told that the removed names do not exist.
func (c *client) endsUpWith(typeURL string, items []item, removed []string) error {
	s, t, err := c.speaking(typeURL)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(c.r.patience)
	for !t.hasJust(items) || s.delta && slices.ContainsFunc(removed, func(n string) bool { return !t.gone[n] }) {
		f, err := s.Next(time.Until(deadline), func(f *xdstest.Frame) bool { return f.TypeURL == typeURL })
		if err != nil {
			return fmt.Errorf("%s holds %s, and then: %w", c.name, t.summary(), err)
		}
		if err := c.take(s, t, f); err != nil {
			return err
		}
		c.apply(s, t, f)
		if err := c.answer(typeURL, nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// hasJust reports whether the client holds the items and nothing else.
func (t *topic) hasJust(items []item) bool {
	for _, it := range items {
		if h, ok := t.held[it.name]; !ok || it.content.tag != "" && h.tag != it.content.tag {
			return false
		}
	}
	return len(t.held) == len(items)
}

// summary is what the client holds, and what it knows to be gone.
func (t *topic) summary() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(t.held)) {
		fmt.Fprintf(&b, " %s=%s", n, t.held[n].tag)
	}
	for i, n := range slices.Sorted(maps.Keys(t.gone)) {
		if i == 0 {
			b.WriteString(" removed")
		}
		b.WriteString(" " + n)
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}

// remembers keeps the version or the nonce of the newest frame of a type, or the
// version of a resource.
func (c *client) remembers(what, typeURL, resource, as string) error {
	_, t, err := c.speaking(typeURL)
	if err != nil {
		return err
	}
	if t.last == nil {
		return fmt.Errorf("%s has got nothing of %s yet", c.name, typeWord(typeURL))
	}
	value := t.last.Version
	switch {
	case what == "nonce":
		value = t.last.Nonce
	case resource != "":
		h, ok := t.shown[resource]
		if !ok {
			return fmt.Errorf("%s has no %s, only [%s]", c.name, resource, strings.Join(slices.Sorted(maps.Keys(t.shown)), " "))
		}
		value = h.version
	}
	c.r.remembered[as] = value
	return nil
}
