package store

import "strings"

// escape keeps a tag within its braces.
var escape = strings.NewReplacer("%", "%25", "}", "%7D")

// Name is what something is called in Redis: prefix:{tag}:rest. Names of one tag
// are on one server of a cluster, so that a script may use several of them. Any tag
// will do; different ones have different names.
func (s *Store) Name(tag string, rest ...string) string {
	tag = escape.Replace(tag)
	if tag == "" {
		tag = "%" // else the whole name would say on which server it is
	}
	var b strings.Builder
	b.WriteString(s.cfg.Prefix)
	b.WriteString(":{")
	b.WriteString(tag)
	b.WriteByte('}')
	for _, r := range rest {
		b.WriteByte(':')
		b.WriteString(r)
	}
	return b.String()
}

// Channel is what a channel of hints is called in Redis. Scripts that publish by
// themselves need it.
func (s *Store) Channel(channel string) string { return s.cfg.Prefix + ":" + channel }
