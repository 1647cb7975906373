package standin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// command is one that a connection or a script may call. The lock of the server is held.
type command struct {
	run    func(s *Server, args []string) any
	least  int // arguments, without the name
	most   int // -1 for any number
	writes bool
}

// commands are the commands that scripts may call as well.
var commands = map[string]command{
	"PING":     {run: ping, most: 1},
	"TIME":     {run: now},
	"GET":      {run: get, least: 1, most: 1},
	"GETRANGE": {run: getRange, least: 3, most: 3},
	"SET":      {run: set, least: 2, most: 4, writes: true},
	"DEL":      {run: del, least: 1, most: -1, writes: true},
	"EXISTS":   {run: exists, least: 1, most: -1},
	"PEXPIRE":  {run: expire, least: 2, most: 2, writes: true},
	"PTTL":     {run: left, least: 1, most: 1},
	"HGET":     {run: hashGet, least: 2, most: 2},
	"HGETALL":  {run: hashAll, least: 1, most: 1},
	"HSET":     {run: hashSet, least: 3, most: -1, writes: true},
	"HDEL":     {run: hashDelete, least: 2, most: -1, writes: true},
	"PUBLISH":  {run: publish, least: 2, most: 2},
	"FLUSHALL": {run: flush, most: 1, writes: true},

	// Commands of tests.
	"KEYS":    {run: keys, least: 1, most: 1},
	"HLEN":    {run: hashLen, least: 1, most: 1},
	"HVALS":   {run: hashValues, least: 1, most: 1},
	"HEXISTS": {run: hashExists, least: 2, most: 2},
	"COPY":    {run: duplicate, least: 2, most: 2, writes: true},
}

// Errors with the exact texts of a redis-server.
const (
	wrongType   = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	notInteger  = failure("ERR value is not an integer or out of range")
	readOnly    = failure("READONLY You can't write against a read only replica.")
	noScript    = failure("NOSCRIPT No matching script. Please use EVAL.")
	syntaxError = failure("ERR syntax error")
)

func wrongNumber(name string) failure {
	return failure(fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(name)))
}

// run runs a command of a connection and answers it.
func (s *Server) run(c *session, args []string) {
	name := strings.ToUpper(args[0])
	switch name {
	case "SUBSCRIBE":
		s.calls[name]++
		s.subscribe(c, args[1:])
	case "UNSUBSCRIBE":
		s.calls[name]++
		s.unsubscribe(c, args[1:])
	case "PING":
		if s.subscribed(c) > 0 { // with version 2 of the protocol
			c.answer([]any{"pong", strings.Join(args[1:], "")})
			return
		}
		c.answer(s.call(args))
	case "CLIENT":
		c.answer(s.clients(c, args[1:]))
	case "EVAL", "EVALSHA":
		s.calls[name]++
		if len(args) < 3 {
			c.answer(wrongNumber(name))
			return
		}
		c.answer(s.eval(name == "EVALSHA", args[1], args[2:]))
	default:
		c.answer(s.call(args))
	}
}

// call runs a command of a connection, or of a script.
func (s *Server) call(args []string) any {
	name := strings.ToUpper(args[0])
	c, ok := commands[name]
	s.calls[name]++
	switch n := len(args) - 1; {
	case !ok:
		return failure(fmt.Sprintf("ERR unknown command '%s'", args[0]))
	case n < c.least || c.most >= 0 && n > c.most:
		return wrongNumber(name)
	case c.writes && s.readOnly:
		return readOnly
	}
	return c.run(s, args[1:])
}

func ping(_ *Server, args []string) any {
	if len(args) > 0 {
		return args[0]
	}
	return status("PONG")
}

func now(s *Server, _ []string) any {
	micros := s.nowLocked().UnixMicro()
	return []any{strconv.FormatInt(micros/1e6, 10), strconv.FormatInt(micros%1e6, 10)}
}

func get(s *Server, args []string) any {
	v := s.getLocked(args[0])
	switch {
	case v == nil:
		return nil
	case v.hash != nil:
		return wrongType
	}
	return v.text
}

func getRange(s *Server, args []string) any {
	from, err := strconv.Atoi(args[1])
	to, err2 := strconv.Atoi(args[2])
	if err != nil || err2 != nil {
		return notInteger
	}
	v := s.getLocked(args[0])
	if v == nil {
		return ""
	}
	if v.hash != nil {
		return wrongType
	}
	n := len(v.text)
	if from < 0 {
		from = max(0, n+from)
	}
	if to < 0 {
		to = n + to
	}
	if to = min(to, n-1); from > to {
		return ""
	}
	return v.text[from : to+1]
}

func set(s *Server, args []string) any {
	v := &value{text: args[1]}
	if len(args) > 2 {
		if len(args) != 4 {
			return syntaxError
		}
		n, err := strconv.ParseInt(args[3], 10, 64)
		unit, ok := map[string]time.Duration{"PX": time.Millisecond, "EX": time.Second}[strings.ToUpper(args[2])]
		switch {
		case !ok:
			return syntaxError
		case err != nil:
			return notInteger
		case n <= 0:
			return failure("ERR invalid expire time in 'set' command")
		}
		v.expires = s.nowLocked().Add(time.Duration(n) * unit)
	}
	s.values[args[0]] = v
	return status("OK")
}

func del(s *Server, args []string) any {
	n := int64(0)
	for _, name := range args {
		if s.getLocked(name) != nil {
			delete(s.values, name)
			n++
		}
	}
	return n
}

func exists(s *Server, args []string) any {
	n := int64(0)
	for _, name := range args {
		if s.getLocked(name) != nil {
			n++
		}
	}
	return n
}

func expire(s *Server, args []string) any {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return notInteger
	}
	v := s.getLocked(args[0])
	if v == nil {
		return int64(0)
	}
	if n <= 0 {
		delete(s.values, args[0])
		return int64(1)
	}
	v.expires = s.nowLocked().Add(time.Duration(n) * time.Millisecond)
	return int64(1)
}

func left(s *Server, args []string) any {
	v := s.getLocked(args[0])
	switch {
	case v == nil:
		return int64(-2)
	case v.expires.IsZero():
		return int64(-1)
	}
	return v.expires.Sub(s.nowLocked()).Milliseconds()
}

// hashOf returns the hash of a name; nil if the name does not exist, and not ok if it is not a
// hash.
func (s *Server) hashOf(name string) (v *value, ok bool) {
	v = s.getLocked(name)
	return v, v == nil || v.hash != nil
}

func hashGet(s *Server, args []string) any {
	v, ok := s.hashOf(args[0])
	if !ok {
		return wrongType
	}
	if v != nil {
		if text, ok := v.hash[args[1]]; ok {
			return text
		}
	}
	return nil
}

func hashAll(s *Server, args []string) any {
	v, ok := s.hashOf(args[0])
	if !ok {
		return wrongType
	}
	all := []any{}
	if v != nil {
		for _, f := range v.fields {
			all = append(all, f, v.hash[f])
		}
	}
	return all
}

func hashSet(s *Server, args []string) any {
	if len(args)%2 == 0 {
		return wrongNumber("HSET")
	}
	v, ok := s.hashOf(args[0])
	if !ok {
		return wrongType
	}
	if v == nil {
		v = &value{hash: make(map[string]string)}
		s.values[args[0]] = v
	}
	n := int64(0)
	for pair := range slices.Chunk(args[1:], 2) {
		if _, ok := v.hash[pair[0]]; !ok {
			v.fields = append(v.fields, pair[0])
			n++
		}
		v.hash[pair[0]] = pair[1]
	}
	return n
}

func hashDelete(s *Server, args []string) any {
	v, ok := s.hashOf(args[0])
	if !ok {
		return wrongType
	}
	n := int64(0)
	if v == nil {
		return n
	}
	for _, f := range args[1:] {
		if _, ok := v.hash[f]; ok {
			delete(v.hash, f)
			v.fields = slices.DeleteFunc(v.fields, func(g string) bool { return g == f })
			n++
		}
	}
	if len(v.hash) == 0 {
		delete(s.values, args[0])
	}
	return n
}

func flush(s *Server, _ []string) any {
	clear(s.values)
	return status("OK")
}
