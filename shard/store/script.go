package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Script is Lua that runs in Redis as one step. It is sent once and then called by
// its hash. A script may run twice for one call, where a connection broke or a
// cluster moved what it names, and may have run although the call failed.
type Script struct {
	name string
	lua  *redis.Script
}

// NewScript makes a script. Its name is for metrics and the log.
func NewScript(name, lua string) *Script {
	return &Script{name: name, lua: redis.NewScript(lua)}
}

// Run runs a script. keys are names of one tag, made by Name; args are strings,
// []byte or integers. An answer of nil is no error.
func (s *Store) Run(ctx context.Context, script *Script, keys []string, args ...any) (Reply, error) {
	return s.call(ctx, script.name, sizeOf(args), func(ctx context.Context) (any, error) {
		return script.lua.Run(ctx, s.client, keys, args...).Result()
	})
}

func sizeOf(args []any) (n int) {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			n += len(a)
		case []byte:
			n += len(a)
		}
	}
	return n
}
