package store

import "strings"

// escape keeps a tag within its braces.
var escape = strings.NewReplacer("%", "%25", "}", "%7D")

// Name is the name of a value in Redis: prefix:{tag}:kind:rest. Names of one tag are on
// one server of a cluster, so that a script may use several of them. Any tag will do;
// different ones have different names.
func (s *Store) Name(k Kind, tag string, rest ...string) string {
	tag = escape.Replace(tag)
	if tag == "" {
		tag = "%" // else the whole name would say on which server it is
	}
	var b strings.Builder
	b.WriteString(s.cfg.Prefix)
	b.WriteString(":{")
	b.WriteString(tag)
	b.WriteByte('}')
	if label := k.label(); label != "" {
		b.WriteByte(':')
		b.WriteString(label)
	}
	for _, r := range rest {
		b.WriteByte(':')
		b.WriteString(r)
	}
	return b.String()
}

// Channel is the name of a channel of hints in Redis. Scripts that publish by themselves
// need it.
func (s *Store) Channel(c Channel) string { return s.cfg.Prefix + ":" + c.String() }
