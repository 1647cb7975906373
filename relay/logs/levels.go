package logs

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// The parts of a node that have levels of their own.
const (
	Node     = "node"            // the program itself: start, drain, configuration
	Clients  = "clients"         // the side of the clients
	Origin   = "upstream"        // control planes and directories
	Tier     = "tier"            // the other nodes, and who owns what
	Redis    = "redis"           // the shared store
	LastGood = "last_known_good" // configuration kept beyond a restart
	GRPC     = "grpc"            // what grpc-go itself says of its connections
	Security = "security"        // certificates, tokens, and who was refused
)

// Parts lists all parts, in the order of their names.
func Parts() []string {
	return []string{Clients, GRPC, LastGood, Node, Redis, Security, Tier, Origin}
}

// Part is the logger of a part: log with its attribute.
func Part(log *slog.Logger, part string) *slog.Logger { return log.With(slog.String(partKey, part)) }

// partKey is the attribute that names a part.
const partKey = "part"

// Levels are the least levels that are logged. All methods are safe for concurrent
// use.
type Levels struct {
	parts map[string]*slog.LevelVar // fixed after construction; all parts, and "" for what is of none

	mu sync.Mutex
	// Guarded by mu.
	own map[string]bool // parts whose level is not that of all
}

// NewLevels makes levels that are all the same.
func NewLevels(level slog.Level) *Levels {
	l := &Levels{parts: map[string]*slog.LevelVar{"": {}}, own: make(map[string]bool)}
	for _, p := range Parts() {
		l.parts[p] = new(slog.LevelVar)
	}
	l.Set(level, nil)
	return l
}

// Set sets the level of all, and those of parts that have their own.
func (l *Levels) Set(level slog.Level, own map[string]slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.own)
	for part, v := range l.parts {
		if o, is := own[part]; is {
			l.own[part] = true
			v.Set(o)
		} else {
			v.Set(level)
		}
	}
}

// SetPart sets the level of a part, or that of all that have none of their own where
// part is empty. It fails where there is no such part.
func (l *Levels) SetPart(part string, level slog.Level) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, is := l.parts[part]
	if !is {
		return fmt.Errorf("unknown log part %q, expected one of %s", part, strings.Join(Parts(), ", "))
	}
	if part != "" {
		l.own[part] = true
		v.Set(level)
		return nil
	}
	for p, v := range l.parts {
		if !l.own[p] {
			v.Set(level)
		}
	}
	return nil
}

// Get returns the level of each part, and under "" that of what is of none.
func (l *Levels) Get() map[string]slog.Level {
	levels := make(map[string]slog.Level, len(l.parts))
	for _, p := range slices.Collect(maps.Keys(l.parts)) {
		levels[p] = l.parts[p].Level()
	}
	return levels
}

// of is the level of a part, or that of what is of none.
func (l *Levels) of(part string) *slog.LevelVar {
	if v, is := l.parts[part]; is {
		return v
	}
	return l.parts[""]
}
