package store

import (
	"strconv"
	"strings"
)

// escape keeps a tag within its braces.
var escape = strings.NewReplacer("%", "%25", "}", "%7D")

// Name returns the name of a value in Redis: prefix:{tag}:kind:rest. Names with the same tag are on
// one server of a cluster, so that a script may use several of them. Any tag is valid; different
// tags have different names.
func (s *Store) Name(k Kind, tag string, rest ...string) string {
	tag = escape.Replace(tag)
	if tag == "" {
		tag = "%" // with an empty tag the whole name would determine the server
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

// Channel returns the name of a channel of hints in Redis. Scripts that publish need it.
func (s *Store) Channel(c Channel) string { return s.cfg.Prefix + ":" + c.String() }

// PartChannel returns the name of a part of a channel, for subscribers that want some of its hints.
func (s *Store) PartChannel(c Channel, part int) string {
	return s.Channel(c) + ":" + strconv.Itoa(part)
}

// ShardedChannel returns the name of a channel among the sharded ones of a cluster. It and its
// parts are on the server of the names with the tag of the channel.
func (s *Store) ShardedChannel(c Channel) string {
	return s.cfg.Prefix + ":{" + c.String() + "}:hints"
}

// ShardedPart is [Store.PartChannel] among the sharded channels.
func (s *Store) ShardedPart(c Channel, part int) string {
	return s.ShardedChannel(c) + ":" + strconv.Itoa(part)
}

// partOf returns the part of a channel for a name; -1 for the channel itself, and for any other
// name.
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
