package standin

import (
	"crypto/sha1" //nolint:gosec // the digest that Redis names scripts by
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// engine runs scripts, one at a time, under the lock of the server.
type engine struct {
	state *lua.LState
}

// newEngine creates an engine with the features of Redis scripts that the product needs: the
// language, string, table and math, and the functions below.
func newEngine(s *Server) *engine {
	e := &engine{state: lua.NewState(lua.Options{SkipOpenLibs: true})}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		e.state.Push(e.state.NewFunction(open))
		e.state.Push(lua.LString(name))
		e.state.Call(1, 0)
	}
	e.state.SetGlobal("redis", e.state.SetFuncs(e.state.NewTable(), map[string]lua.LGFunction{
		"sha1hex":      func(l *lua.LState) int { l.Push(lua.LString(digest(l.CheckString(1)))); return 1 },
		"call":         func(l *lua.LState) int { return e.call(s, true) },
		"pcall":        func(l *lua.LState) int { return e.call(s, false) },
		"error_reply":  func(l *lua.LState) int { l.Push(e.saying("err", l.CheckString(1))); return 1 },
		"status_reply": func(l *lua.LState) int { l.Push(e.saying("ok", l.CheckString(1))); return 1 },
	}))
	return e
}

func (e *engine) close() { e.state.Close() }

// eval runs a script, by its digest or its text. rest is the number of keys, followed by the keys
// and the arguments.
func (s *Server) eval(byDigest bool, script string, rest []string) any {
	keys, err := strconv.Atoi(rest[0])
	switch {
	case err != nil:
		return notInteger
	case keys < 0:
		return failure("ERR Number of keys can't be negative")
	case keys > len(rest)-1:
		return failure("ERR Number of keys can't be greater than number of args")
	}
	name := strings.ToLower(script)
	if !byDigest {
		name = digest(script)
		if s.scripts[name] == nil {
			compiled, err := compile(script)
			if err != nil {
				return failure("ERR Error compiling script: " + oneLine(err))
			}
			s.scripts[name] = compiled
		}
	}
	if s.scripts[name] == nil {
		return noScript
	}
	return s.engine.run(s.scripts[name], rest[1:1+keys], rest[1+keys:])
}

// digest returns the SHA-1 digest by which Redis names scripts, and which scripts get from
// redis.sha1hex.
func digest(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

func compile(script string) (*lua.FunctionProto, error) {
	chunk, err := parse.Parse(strings.NewReader(script), "user_script")
	if err != nil {
		return nil, err
	}
	return lua.Compile(chunk, "user_script")
}

func (e *engine) run(script *lua.FunctionProto, keys, args []string) any {
	l := e.state
	l.SetGlobal("KEYS", e.list(keys))
	l.SetGlobal("ARGV", e.list(args))
	l.Push(l.NewFunctionFromProto(script))
	if err := l.PCall(0, 1, nil); err != nil {
		l.SetTop(0)
		if raised, ok := err.(*lua.ApiError); ok { //nolint:errorlint // PCall returns it as it is
			if said, ok := raised.Object.(*lua.LTable); ok {
				if text, ok := said.RawGetString("err").(lua.LString); ok {
					return failure(text)
				}
			}
		}
		return failure("ERR " + oneLine(err))
	}
	out := e.answer(l.Get(-1))
	l.SetTop(0)
	return out
}

func oneLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimRight(text, "\r")
}

func (e *engine) list(texts []string) *lua.LTable {
	t := e.state.NewTable()
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

func (e *engine) saying(field, text string) *lua.LTable {
	t := e.state.NewTable()
	t.RawSetString(field, lua.LString(text))
	return t
}

// call runs a command for a script. An error is raised, or is the result.
func (e *engine) call(s *Server, raise bool) int {
	l := e.state
	args := make([]string, 0, l.GetTop())
	for i := 1; i <= l.GetTop(); i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			args = append(args, string(v))
		case lua.LNumber:
			args = append(args, number(v))
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		l.RaiseError("Please specify at least one argument for this redis.call() call")
	}
	result := e.value(s.call(args))
	if said, ok := result.(*lua.LTable); ok && raise && said.RawGetString("err") != lua.LNil {
		l.Error(said, 0)
	}
	l.Push(result)
	return 1
}

// number formats a number like Lua 5.1.
func number(n lua.LNumber) string {
	if n == lua.LNumber(int64(n)) {
		return strconv.FormatInt(int64(n), 10)
	}
	return fmt.Sprintf("%.17g", float64(n))
}

// value converts an answer to a Lua value.
func (e *engine) value(a any) lua.LValue {
	switch a := a.(type) {
	case int64:
		return lua.LNumber(a)
	case string:
		return lua.LString(a)
	case status:
		return e.saying("ok", string(a))
	case failure:
		return e.saying("err", string(a))
	case []any:
		t := e.state.NewTable()
		for _, v := range a {
			t.Append(e.value(v))
		}
		return t
	}
	return lua.LFalse // nil
}

// answer converts the result of a script to an answer.
func (e *engine) answer(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return failure(text)
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(text)
		}
		all := []any{}
		for i := 1; v.RawGetInt(i) != lua.LNil; i++ {
			all = append(all, e.answer(v.RawGetInt(i)))
		}
		return all
	}
	return nil
}
