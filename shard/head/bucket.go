package head

import (
	"crypto/sha1" //nolint:gosec // the only digest that scripts of Redis have
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"xdsrelay/shard/store"
)

// Nodes do not ask Redis for each of their keys whether its head has changed. Keys are divided into
// buckets by hash, and Redis has a stamp for each bucket, which changes after each claim and each
// write of a head. A node that knows the stamp of a bucket, and has read its keys since, knows
// their heads.
//
// A stamp is the digest of the hint that was published with it. The hint consists of the previous
// stamp, a random text and the keys. So no other hint leads to the stamp: a forged hint makes nodes
// read, and cannot make them skip a change that they have not read.
//
// The stamp is set after the head, and set again until Redis has confirmed it, so a node that sees
// the old stamp next to the new head sees the new stamp later. If the writer ends before that, the
// next owner of the key claims it, and sets the stamp. In a cluster the two are on different
// servers, so one script cannot do both.

// buckets is the number of buckets. It is the same for all nodes and versions: a node checks the
// stamps of its own buckets only.
const buckets = 1024

// bucketOf returns the bucket of a key.
func bucketOf(key string) int { return int(xxhash.Sum64String(key) % buckets) }

const (
	stampsTag = "heads"
	// anyField is the stamp of all buckets together: as long as it is the same, no other stamp has
	// changed. The fields of the others are their numbers.
	anyField = "any"
	// maxStamp is the maximum length of a stamp or random text, in bytes.
	maxStamp = 32
)

// stamp sets the stamps of buckets. For each bucket it publishes the previous stamp and the keys
// that have changed to nodes with keys in the bucket. ARGV: how long stamps are kept, a random
// text, the prefix of the channels, the prefix of the sharded channels, which is empty if some node
// does not subscribe to them, and for each bucket its number and the keys. It returns the stamp of
// each bucket before and now.
//
// A sharded channel is on the server of the stamps, where the script runs. Messages on other
// channels are forwarded to all servers of a cluster. A server may have no sharded channels
// although its predecessor had them.
var stamp = store.NewScript("head_stamp", `
local stamps = {}
local function publish(bucket, hint)
	if ARGV[4] ~= '' and type(redis.pcall('SPUBLISH', ARGV[4] .. bucket, hint)) == 'number' then return end
	redis.pcall('PUBLISH', ARGV[3] .. bucket, hint)
end
redis.call('HSET', KEYS[1], 'any', ARGV[2])
for i = 5, #ARGV, 2 do
	local last = redis.call('HGET', KEYS[1], ARGV[i]) or ''
	local hint = last .. ' ' .. ARGV[2] .. ' ' .. ARGV[i + 1]
	local now = string.sub(redis.sha1hex(hint), 1, 16)
	redis.call('HSET', KEYS[1], ARGV[i], now)
	publish(ARGV[i], hint)
	table.insert(stamps, last)
	table.insert(stamps, now)
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return stamps
`)

// stampOf returns the stamp that belongs to a hint.
func stampOf(hint string) string {
	sum := sha1.Sum([]byte(hint)) //nolint:gosec // the only digest that scripts of Redis have
	return hex.EncodeToString(sum[:])[:16]
}

// look returns all stamps, or nothing if the one for all buckets is still ARGV[1].
var look = store.NewScript("head_look", `
if redis.call('HGET', KEYS[1], 'any') == ARGV[1] then return false end
return redis.call('HGETALL', KEYS[1])
`)

func stampsName(s *store.Store) string { return s.Name(store.HeadStamps, stampsTag) }

func newText() string { return strconv.FormatUint(rand.Uint64(), 36) }

// stampArgs returns the arguments of stamp for keys by bucket, and the buckets in their order.
func (h *Heads) stampArgs(text string, byBucket map[int]map[string]struct{}) (args []any, order []int) {
	s, sharded := h.cfg.Store, ""
	if h.cfg.Sharded() {
		sharded = s.ShardedChannel(store.HeadHints) + ":"
	}
	args = []any{keptFor.Milliseconds(), text, s.Channel(store.HeadHints) + ":", sharded}
	for n, keys := range byBucket {
		names, err := json.Marshal(slices.Sorted(maps.Keys(keys)))
		if err != nil {
			panic("head: strings cannot be written as JSON: " + err.Error())
		}
		order = append(order, n)
		args = append(args, n, names)
	}
	return args, order
}

// stamps are the stamps in Redis. A missing one is empty.
type stamps struct {
	all     string
	buckets map[int]string
}

// stampsIn decodes an answer of look. Fields and values that no node can have written count as
// absent.
func stampsIn(r store.Reply) (s stamps, err error) {
	texts, err := r.Texts()
	if err != nil {
		return s, fmt.Errorf("the stamps of heads: %w", err)
	}
	s.buckets = make(map[int]string)
	for i := 1; i < len(texts); i += 2 {
		field, text := texts[i-1], texts[i]
		if len(text) > maxStamp {
			continue
		}
		if field == anyField {
			s.all = text
		} else if n, err := strconv.Atoi(field); err == nil && 0 <= n && n < buckets {
			s.buckets[n] = text
		}
	}
	return s, nil
}

// change is a hint that heads of a bucket have changed.
type change struct {
	from, to string // stamps
	text     string // random, from the node that set the stamp
	keys     []string
}

// decodeChange decodes a hint that stamp has published.
func decodeChange(text string) (c change, err error) {
	from, rest, _ := strings.Cut(text, " ")
	random, keys, ok := strings.Cut(rest, " ")
	if !ok || len(from) > maxStamp || len(random) > maxStamp {
		return c, fmt.Errorf("a hint of %d bytes: expected a stamp, a random text and keys", len(text))
	}
	if err := json.Unmarshal([]byte(keys), &c.keys); err != nil {
		return c, fmt.Errorf("a hint about heads: %w", err)
	}
	c.from, c.to, c.text = from, stampOf(text), random
	return c, nil
}
