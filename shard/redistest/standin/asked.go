package standin

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// clients lists connections, or closes those that subscribe to channels, or all others except the
// one that asks.
func (s *Server) clients(self *session, args []string) any {
	switch asked := strings.ToUpper(strings.Join(args, " ")); asked {
	case "LIST":
		var b strings.Builder
		for c := range s.sessions {
			fmt.Fprintf(&b, "addr=%s\n", c.conn.RemoteAddr())
		}
		return b.String()
	case "KILL TYPE NORMAL", "KILL TYPE PUBSUB":
		n := int64(0)
		for c := range s.sessions {
			if c != self && (s.subscribed(c) > 0) == strings.HasSuffix(asked, "PUBSUB") {
				c.end()
				n++
			}
		}
		return n
	}
	return syntaxError
}

// keys returns the names that match a pattern.
func keys(s *Server, args []string) any {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		if ok, err := path.Match(args[0], name); err != nil {
			return syntaxError
		} else if ok && s.getLocked(name) != nil {
			all = append(all, name)
		}
	}
	return all
}

func hashLen(s *Server, args []string) any {
	v, ok := s.hashOf(args[0])
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return int64(0)
	}
	return int64(len(v.hash))
}

func hashValues(s *Server, args []string) any {
	v, ok := s.hashOf(args[0])
	if !ok {
		return wrongType
	}
	all := []any{}
	if v != nil {
		for _, f := range v.fields {
			all = append(all, v.hash[f])
		}
	}
	return all
}

func hashExists(s *Server, args []string) any {
	if v, ok := s.hashOf(args[0]); !ok {
		return wrongType
	} else if v != nil {
		if _, ok := v.hash[args[1]]; ok {
			return int64(1)
		}
	}
	return int64(0)
}

func duplicate(s *Server, args []string) any {
	v := s.getLocked(args[0])
	if v == nil || s.getLocked(args[1]) != nil {
		return int64(0)
	}
	s.values[args[1]] = &value{text: v.text, hash: maps.Clone(v.hash), fields: slices.Clone(v.fields), expires: v.expires}
	return int64(1)
}
