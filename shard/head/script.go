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

// What is in Redis of a key is one hash: its epoch, and the head of each type. It
// goes when nobody has written to it for a week.
const (
	epochField = "epoch"
	typeField  = "type/" // and the URL follows
	keptFor    = 7 * 24 * time.Hour
)

// claim takes the key over: it makes an epoch that is higher than any before. It is
// not less than the clock of Redis in microseconds, so that this holds as well where
// Redis was emptied, or has lost its newest writes to a failover. It answers with all
// that there is of the key. A number that no claim can have made counts for nothing, here
// and below: else what somebody has written there by mistake would stand for ever.
var claim = store.NewScript("head_claim", `
local now = redis.call('TIME')
local epoch = tonumber(now[1]) * 1000000 + tonumber(now[2])
local held = tonumber(redis.call('HGET', KEYS[1], 'epoch'))
if held and held >= epoch and held < 9007199254740990 then epoch = held + 1 end
redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', epoch))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('HGETALL', KEYS[1])
`)

// write writes heads of one epoch, unless there is a higher one: then the writer does
// not own the key any more. Of its own writes, which may arrive late, an older one
// never replaces a newer; a head of a higher epoch than the key is in is none. ARGV: how long it
// is kept, the epoch, and for each type its field, the generation and the head. It answers
// with the epoch of the key.
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

// read answers with all that there is of a key.
var read = store.NewScript("head_read", `return redis.call('HGETALL', KEYS[1])`)

// name is what a key's hash is called.
func name(s *store.Store, key string) string { return s.Name(store.TierHead, key) }

func claimCall(s *store.Store, key string) store.Call {
	return store.Call{Keys: []string{name(s, key)}, Args: []any{keptFor.Milliseconds()}}
}

func readCall(s *store.Store, key string) store.Call {
	return store.Call{Keys: []string{name(s, key)}}
}

// writeCall writes heads by type URL, which are of the same epoch, signed with token, if any.
func writeCall(s *store.Store, token *secure.Token, key string, epoch uint64, heads map[string]Head) store.Call {
	args := []any{keptFor.Milliseconds(), epoch}
	for url, h := range heads {
		args = append(args, typeField+url, h.Generation, sign(s, token, key, url, h))
	}
	return store.Call{Keys: []string{name(s, key)}, Args: args}
}

// kept is what Redis has of a key.
type kept struct {
	epoch uint64
	heads map[string]Head // by type URL
	// unsigned are heads without a valid signature, by type URL. They count for nothing, but
	// the owner has to replace them.
	unsigned map[string]Head
}

// keptIn reads the answer of claim or read. What cannot be read counts as not there, and
// so does a head of a higher epoch than the key's, which no script has written: the owner
// writes its own. verified reports whether the signature of a type's head is valid; nil
// where nothing is signed.
func keptIn(r store.Reply, verified func(url, text string) bool) (k kept, err error) {
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
				k.epoch = 0 // none that counts
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
