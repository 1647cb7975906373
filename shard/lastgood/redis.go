package lastgood

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"xdsrelay/shard/store"
)

// Redis stores records in the Redis of a tier. A key has a hash of marks by type, and each record
// has a name of its own, all with the tag of the key's head.
type Redis struct {
	store *store.Store
	max   int // of a record, in bytes
	epoch func(key string) (epoch uint64, ok bool)
	last  atomic.Int64 // number of the last write; see number
}

// NewRedis creates a store in s. epoch returns the number under which this node has claimed a key;
// ok is false if it has not. No record is larger than limit bytes.
func NewRedis(s *store.Store, limit int, epoch func(key string) (epoch uint64, ok bool)) *Redis {
	return &Redis{store: s, max: limit, epoch: epoch}
}

// save writes a record, unless the key was claimed with a later epoch, or has a newer record of
// this one: a write may arrive late. KEYS: the key's head, the marks, the record. ARGV: epoch,
// number, type, the mark preceded by both, the record (empty for none), how long it is kept.
var save = store.NewScript("last_known_good_save", `
local epoch, number = tonumber(ARGV[1]), tonumber(ARGV[2])
local function of(text)
	local n = tonumber(text) or 0
	return n < 9007199254740992 and n or 0 -- larger ones were never written
end
local head = of(redis.call('HGET', KEYS[1], 'epoch'))
local e, n = string.match(redis.call('HGET', KEYS[2], ARGV[3]) or '', '^(%d+) (%d+) ')
e, n = of(e), of(n)
if head > epoch or head < epoch and e > epoch or e == epoch and n > number then return 0 end
if ARGV[5] == '' then
	redis.call('HDEL', KEYS[2], ARGV[3])
	redis.call('DEL', KEYS[3])
	return 1
end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[6])
return 1
`)

var (
	marks = store.NewScript("last_known_good_marks", `return redis.call('HGETALL', KEYS[1])`)
	// there returns which of the records exist: one may have been evicted separately.
	there = store.NewScript("last_known_good_exists", `
local there = {}
for i, name in ipairs(KEYS) do there[i] = redis.call('EXISTS', name) end
return there
`)
	part = store.NewScript("last_known_good_load", `return redis.call('GETRANGE', KEYS[1], ARGV[1], ARGV[2])`)
)

// partSize is how much of a record one call reads, in bytes: each call has a deadline, however
// large the record is.
const partSize = 2 << 20

func (r *Redis) marksName(key string) string { return r.store.Name(store.LastGoodMarks, key) }
func (r *Redis) recordName(key, url string) string {
	return r.store.Name(store.LastGoodRecord, key, url)
}

// Save implements [Store].
func (r *Redis) Save(ctx context.Context, key, url, mark string, sealed []byte) error {
	epoch, ok := r.epoch(key)
	if !ok {
		return errUnclaimed
	}
	number := r.number()
	reply, err := r.store.Run(ctx, save, []string{r.store.Name(store.TierHead, key), r.marksName(key), r.recordName(key, url)},
		epoch, number, url, fmt.Sprintf("%d %d %s", epoch, number, mark), sealed, keptFor.Milliseconds())
	if err != nil {
		return err
	}
	if done, err := reply.Int(); err != nil || done != 1 {
		return errFenced
	}
	return nil
}

// number returns the number of the next write: higher than all before, and close to the time in
// microseconds.
func (r *Redis) number() int64 {
	for {
		last := r.last.Load()
		if next := max(last+1, time.Now().UnixMicro()); r.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Marks implements [Store].
func (r *Redis) Marks(ctx context.Context, key string) (map[string]Mark, error) {
	all, err := r.marks(ctx, key)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	urls := slices.Collect(maps.Keys(all))
	names := make([]string, len(urls))
	for i, url := range urls {
		names[i] = r.recordName(key, url)
	}
	reply, err := r.store.Run(ctx, there, names)
	if err != nil {
		return nil, err
	}
	list, err := reply.List()
	if err != nil {
		return nil, err
	}
	for i, url := range urls {
		if i >= len(list) {
			return nil, fmt.Errorf("redis answered %d values, expected %d", len(list), len(urls))
		}
		if n, err := list[i].Int(); err != nil || n == 0 {
			delete(all, url)
		}
	}
	return all, nil
}

// marks returns the marks that were written, including those of records that no longer exist.
func (r *Redis) marks(ctx context.Context, key string) (map[string]Mark, error) {
	reply, err := r.store.Run(ctx, marks, []string{r.marksName(key)})
	if err != nil {
		return nil, err
	}
	texts, err := reply.Texts()
	if err != nil {
		return nil, err
	}
	all := make(map[string]Mark, len(texts)/2)
	for pair := range slices.Chunk(texts, 2) {
		fields := strings.Fields(pair[len(pair)-1])
		if len(pair) != 2 || len(fields) != 3 {
			continue
		}
		if number, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			all[pair[0]] = Mark{fields[2], time.UnixMicro(number)}
		}
	}
	return all, nil
}

// Load implements [Store].
func (r *Redis) Load(ctx context.Context, key string, take func(sealed []byte)) error {
	all, err := r.marks(ctx, key)
	if err != nil {
		return err
	}
	for url := range all {
		sealed, err := r.load(ctx, r.recordName(key, url))
		if err != nil {
			return err
		}
		if len(sealed) > 0 {
			take(sealed)
		}
	}
	return nil
}

// load reads a record in parts. If it is replaced meanwhile, the parts do not match, which is
// detected when it is opened.
func (r *Redis) load(ctx context.Context, name string) (sealed []byte, err error) {
	for len(sealed) <= r.max {
		reply, err := r.store.Run(ctx, part, []string{name}, strconv.Itoa(len(sealed)), strconv.Itoa(len(sealed)+partSize-1))
		if err != nil {
			return nil, err
		}
		next, err := reply.Text()
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, next...)
		if len(next) < partSize {
			return sealed, nil
		}
	}
	return sealed[:r.max], nil // not a valid record
}
