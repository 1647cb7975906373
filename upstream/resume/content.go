package resume

import "xdsrelay/relay/resource"

// Unknown is sent as the version of a name whose version has no meaning for the server any more. It
// is not empty, since servers may interpret an empty version as a resource that the client does not
// have.
const Unknown = "unknown"

// Phase is how much is known about the server of what the cache has.
type Phase uint8

const (
	// Fresh: nothing is known. There is no content, or it does not say from which server it is.
	Fresh Phase = iota
	// Earlier: the content is from a server that has not answered yet since the key began.
	Earlier
	// Serving: a server has answered, and the cache reflects it.
	Serving
)

// Claim is what a request may say about a resource that the cache has.
type Claim uint8

// See the package documentation.
const (
	Omitted Claim = iota
	ByName
	ByVersion
)

// Content is what is known about the servers that the content of one key is from. The zero value is
// a key without content. It must not be used by several goroutines at the same time.
type Content struct {
	phase Phase
	// server is the address of the server of the phase, "" if Fresh.
	server string
	// before is, while Serving, the address of the server that marked resources are from. It may be
	// the same server: the key was without a stream in between.
	before string
	// marks has the canonical names of marked resources by type URL.
	marks map[string]map[string]struct{}
	// accepted is the last acknowledged version of each type on SotW, by type URL, from server.
	accepted map[string]string
}

// Phase returns the present phase.
func (c *Content) Phase() Phase { return c.phase }

// Restored records that the cache has content from a server that has not answered yet. It changes
// nothing once another server is known, or if the address is empty.
func (c *Content) Restored(server string) {
	if c.phase == Fresh && server != "" {
		c.phase, c.server = Earlier, server
	}
}

// Confirmed records that the content counts as what a server serves now, before it has said
// anything: another node confirmed that until a moment ago.
func (c *Content) Confirmed(server string) {
	c.phase, c.server, c.before = Serving, server, server
}

// Answered records that a server has answered on a stream. It reports whether that is another
// server than before, or the first: then no version that was accepted before is repeated, and the
// caller marks all content that the cache has, unless the server is a node that follows the same
// versions.
func (c *Content) Answered(server string) (changed bool) {
	if c.phase == Serving && c.server == server {
		return false
	}
	c.phase, c.server, c.before = Serving, server, c.server
	clear(c.accepted)
	return true
}

// Accepted records the version of an acknowledged response of the present server (SotW).
func (c *Content) Accepted(t *resource.Type, version string) {
	if c.accepted == nil {
		c.accepted = make(map[string]string)
	}
	c.accepted[t.URL] = version
}

// Forget forgets the versions that were accepted: a server that takes a version as proof that its
// client is current would never report what it has removed since (B32).
func (c *Content) Forget() { clear(c.accepted) }

// Version returns the version of a type to repeat on a stream to a server, "" for none (C1, SotW).
func (c *Content) Version(server string, t *resource.Type) string {
	if c.phase != Serving || c.server != server {
		return ""
	}
	return c.accepted[t.URL]
}

// Mark marks resources of a type: their versions have no meaning for the present server until it
// has mentioned them.
func (c *Content) Mark(t *resource.Type, names []string) {
	if len(names) == 0 {
		return
	}
	marked := c.marks[t.URL]
	if marked == nil {
		marked = make(map[string]struct{}, len(names))
		if c.marks == nil {
			c.marks = make(map[string]map[string]struct{})
		}
		c.marks[t.URL] = marked
	}
	for _, n := range names {
		marked[resource.Canonical(n)] = struct{}{}
	}
}

// MarkOnly marks resources of a type, and removes the marks of all others.
func (c *Content) MarkOnly(t *resource.Type, names []string) {
	delete(c.marks, t.URL)
	c.Mark(t, names)
}

// Unmark removes all marks.
func (c *Content) Unmark() { clear(c.marks) }

// Marked returns how many resources of a type are marked.
func (c *Content) Marked(t *resource.Type) int { return len(c.marks[t.URL]) }

// Mentioned removes the marks of names that the present server has sent, removed or reported.
func (c *Content) Mentioned(t *resource.Type, name string) {
	delete(c.marks[t.URL], resource.Canonical(name))
}

// TakeMarked returns the canonical names of the marked resources of a type, in no order, and
// removes their marks.
func (c *Content) TakeMarked(t *resource.Type) []string {
	marked := c.marks[t.URL]
	names := make([]string, 0, len(marked))
	for n := range marked {
		names = append(names, n)
	}
	delete(c.marks, t.URL)
	return names
}

// Claims turns what the cache has of a type, versions by name, into what the first request of a
// stream to a server may say of it (initial_resource_versions, C8). It changes and returns held, or
// returns nil.
//
//	phase    server asked   resource   claim
//	Fresh    any            any        Omitted
//	Earlier  the same       any        ByName
//	Earlier  another        any        Omitted
//	Serving  the same       unmarked   ByVersion
//	Serving  the same       marked     ByName, if the marked ones are from this server, else Omitted
//	Serving  another        any        Omitted
func (c *Content) Claims(server string, t *resource.Type, held map[string]string) map[string]string {
	if c.phase == Fresh || c.server != server {
		return nil
	}
	marked := c.marks[t.URL]
	if c.phase == Serving && len(marked) == 0 {
		return held
	}
	for n := range held {
		_, is := marked[resource.Canonical(n)]
		switch c.claim(is) {
		case ByVersion:
		case ByName:
			held[n] = Unknown
		case Omitted:
			delete(held, n)
		}
	}
	return held
}

// claim is the table of [Content.Claims] for the server of the phase.
func (c *Content) claim(marked bool) Claim {
	switch {
	case c.phase == Earlier:
		return ByName
	case !marked:
		return ByVersion
	case c.before == c.server:
		return ByName
	}
	return Omitted
}
