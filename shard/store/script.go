package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script that Redis runs atomically. It is sent once and then called by its hash. A
// script may run twice for one call, if a connection fails or a cluster moves its names, and may
// have run although the call failed.
type Script struct {
	name string
	lua  *redis.Script
}

// NewScript creates a script. Its name is for metrics and logs.
func NewScript(name, lua string) *Script {
	return &Script{name: name, lua: redis.NewScript(lua)}
}

// Run runs a script. keys are names with the same tag, from Name; args are strings, []byte or
// integers. A nil answer is not an error.
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
