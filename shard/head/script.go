package head

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/shard/store"
)

// A key is one hash in Redis: its epoch, and the head of each type. It expires a week after the
// last write.
const (
	epochField = "epoch"
	typeField  = "type/" // followed by the URL
	keptFor    = 7 * 24 * time.Hour
)

// claim takes ownership of the key: it sets an epoch that is higher than any before. The epoch is
// at least the clock of Redis in microseconds, so that it is higher also if Redis was emptied, or
// lost its newest writes in a failover. It returns everything that Redis has of the key. Here and
// below, a number that no claim can have made is ignored: otherwise a value that was written by
// mistake would remain indefinitely.
var claim = store.NewScript("head_claim", `
local now = redis.call('TIME')
local epoch = tonumber(now[1]) * 1000000 + tonumber(now[2])
local held = tonumber(redis.call('HGET', KEYS[1], 'epoch'))
if held and held >= epoch and held < 9007199254740990 then epoch = held + 1 end
redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', epoch))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HGETALL', KEYS[1])
`)

// write writes heads of one epoch, unless there is a higher one: then the writer does not own the
// key any more. An older write of the same node, which may arrive late, never replaces a newer one;
// a head with an epoch above that of the key is ignored. ARGV: how long the key is kept, the epoch,
// and for each type its field, the generation and the head. It returns the epoch of the key.
var write = store.NewScript("head_write", `
local epoch = tonumber(ARGV[2])
local function number(text)
	local n = tonumber(text) or 0
	return n < 9007199254740992 and n or 0
end
local held = number(redis.call('HGET', KEYS[1], 'epoch'))
if held > epoch then return string.format('%.0f', held) end
if held < epoch then redis.call('HSET', KEYS[1], 'epoch', ARGV[2]) end
for i = 3, #ARGV, 3 do
	local old = redis.call('HGET', KEYS[1], ARGV[i]) or ''
	local e, g = string.match(old, '^(%d+) (%d+) ')
	e, g = number(e), number(g)
	if e ~= epoch or g <= tonumber(ARGV[i + 1]) then
		redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
	end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return ARGV[2]
`)

// read returns everything that Redis has of a key.
var read = store.NewScript("head_read", `return redis.call('HGETALL', KEYS[1])`)

// name returns the name of the hash of a key.
func name(s *store.Store, key string) string { return s.Name(store.TierHead, key) }

func claimCall(s *store.Store, key string) store.Call {
	return store.Call{Keys: []string{name(s, key)}, Args: []any{keptFor.Milliseconds()}}
}

func readCall(s *store.Store, key string) store.Call {
	return store.Call{Keys: []string{name(s, key)}}
}

// writeCall writes heads by type URL. They have the same epoch and are signed with token, if any.
func writeCall(s *store.Store, token *secure.Token, key string, epoch uint64, heads map[string]Head) store.Call {
	args := []any{keptFor.Milliseconds(), epoch}
	for url, h := range heads {
		args = append(args, typeField+url, h.Generation, sign(s, token, key, url, h))
	}
	return store.Call{Keys: []string{name(s, key)}, Args: args}
}

// advanceCall replaces heads, which have the same epoch, by type URL.
func advanceCall(s *store.Store, token *secure.Token, key string, epoch uint64, heads map[string]Head) store.Call {
	args := []any{keptFor.Milliseconds(), epoch}
	for url, h := range heads {
		args = append(args, typeField+url, h.Generation-1, sign(s, token, key, url, h))
	}
	return store.Call{Keys: []string{name(s, key)}, Args: args}
}

// keyState is the state of a key in Redis.
type keyState struct {
	epoch uint64
	heads map[string]Head // by type URL
	// unsigned are heads without a valid signature, by type URL. They have no effect, but the owner
	// must replace them.
	unsigned map[string]Head
}

// decodeKeyState decodes the answer of claim or read. A malformed head counts as absent, and so
// does one with an epoch above that of the key, which no script has written: the owner writes its
// own. verified reports whether the signature of a type's head is valid; nil if heads are not
// signed.
func decodeKeyState(r store.Reply, verified func(url, text string) bool) (k keyState, err error) {
	texts, err := r.Texts()
	if err != nil {
		return k, fmt.Errorf("the heads of a key: %w", err)
	}
	k.heads, k.unsigned = make(map[string]Head), make(map[string]Head)
	for pair := range slices.Chunk(texts, 2) {
		if len(pair) < 2 {
			return k, fmt.Errorf("the heads of a key: %d fields and values, expected pairs", len(texts))
		}
		if pair[0] == epochField {
			if k.epoch, _ = strconv.ParseUint(pair[1], 10, 64); k.epoch >= maxNumber {
				k.epoch = 0 // invalid
			}
			continue
		}
		url, ok := strings.CutPrefix(pair[0], typeField)
		h, err := decode(pair[1])
		switch {
		case !ok || err != nil:
		case verified == nil || verified(url, pair[1]):
			k.heads[url] = h
		default:
			k.unsigned[url] = h
		}
	}
	tooNew := func(_ string, h Head) bool { return h.Epoch > k.epoch }
	maps.DeleteFunc(k.heads, tooNew)
	maps.DeleteFunc(k.unsigned, tooNew)
	return k, nil
}
