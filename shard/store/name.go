package store

import (
	"strconv"
	"strings"
)

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

// PartChannel is the name of a part of a channel, for subscribers that want some of its
// hints.
func (s *Store) PartChannel(c Channel, part int) string {
	return s.Channel(c) + ":" + strconv.Itoa(part)
}

// ShardedChannel is the name of a channel among the sharded ones of a cluster. It and its
// parts are on the server that has the names with the channel's tag.
func (s *Store) ShardedChannel(c Channel) string {
	return s.cfg.Prefix + ":{" + c.String() + "}:hints"
}

// ShardedPart is [Store.PartChannel] among the sharded channels.
func (s *Store) ShardedPart(c Channel, part int) string {
	return s.ShardedChannel(c) + ":" + strconv.Itoa(part)
}

// partOf is the part of a channel that a name is of; -1 for the channel itself, and for
// what is no part of it.
func (s *Store) partOf(c Channel, name string) int {
	text, ok := strings.CutPrefix(name, s.ShardedChannel(c)+":")
	if !ok {
		text, ok = strings.CutPrefix(name, s.Channel(c)+":")
	}
	if n, err := strconv.Atoi(text); ok && err == nil {
		return n
	}
	return -1
}
