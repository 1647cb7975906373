// Package ledger has in Redis what the nodes of a tier agree on about rollouts: the record of each key, and
// the budget of the tier. A record is written by the owner of its key alone: each write names the epoch
// under which the writer owns the key, and the number of the write before it, and Redis compares both. So of
// two nodes that both believe to be the owner, only one can let more clients have a revision.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/shard/store"
)

// Errors of writes.
var (
	// ErrSuperseded: another node has claimed the key since.
	ErrSuperseded = errors.New("ledger: another node owns the key by now")
	// ErrChanged: it was written since it was read.
	ErrChanged = errors.New("ledger: written by another node since it was read")
)

// keptFor is how long a record outlives its last write.
const keptFor = 30 * 24 * time.Hour

// MaxSize is the longest text that is read, in bytes: others may write to Redis, too.
const MaxSize = 8 << 20

// Entry is a text and the number of its last write. The zero value is that of an entry that was never
// written.
type Entry struct {
	Seq  uint64
	Text string // JSON
}

// Ledger reads and writes. All methods are safe for concurrent use.
type Ledger struct {
	store *store.Store
	token *secure.Token
}

// New makes a ledger. With a token, texts are signed, and only signed ones count.
func New(s *store.Store, token *secure.Token) *Ledger { return &Ledger{s, token} }

// write writes a text. KEYS: the entry, and for a record the hash with the epoch of the key. ARGV: how long
// it is kept, the number of the write before, the text, and for a record the epoch of the writer. It returns
// what became of it, and the number of the last write. An entry that is missing, since Redis has lost it, is
// written whatever the number. Numbers that no write can have made are ignored.
var write = store.NewScript("ledger_write", `
local function number(text)
	local n = tonumber(text) or 0
	return n > 0 and n < 9007199254740990 and n or 0
end
local epoch = number(ARGV[4])
if KEYS[2] then
	local held = math.max(number(redis.call('HGET', KEYS[2], 'epoch')), number(redis.call('HGET', KEYS[1], 'epoch')))
	if held > epoch then return {'superseded', string.format('%.0f', held)} end
end
local seq, last = number(redis.call('HGET', KEYS[1], 'seq')), number(ARGV[2])
if seq > 0 and seq ~= last then return {'changed', string.format('%.0f', seq)} end
seq = math.max(seq, last) + 1
redis.call('HSET', KEYS[1], 'seq', string.format('%.0f', seq), 'text', ARGV[3])
if KEYS[2] then redis.call('HSET', KEYS[1], 'epoch', ARGV[4]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {'written', string.format('%.0f', seq)}
`)

// read returns the number of the last write, and the text unless it is longer than ARGV[1].
var read = store.NewScript("ledger_read", `
local text = redis.call('HGET', KEYS[1], 'text') or ''
if #text > tonumber(ARGV[1]) then text = '' end
return {redis.call('HGET', KEYS[1], 'seq') or '0', text}
`)

func (l *Ledger) recordName(key string) string { return l.store.Name(store.RolloutRecord, key) }

const budgetTag = "rollouts"

func (l *Ledger) budgetName() string { return l.store.Name(store.RolloutBudget, budgetTag) }

// Record reads the record of a key. One without a valid signature counts as absent, but its number counts.
func (l *Ledger) Record(ctx context.Context, key string) (Entry, error) {
	return l.read(ctx, l.recordName(key))
}

// Budget reads the budget.
func (l *Ledger) Budget(ctx context.Context) (Entry, error) { return l.read(ctx, l.budgetName()) }

func (l *Ledger) read(ctx context.Context, name string) (e Entry, err error) {
	r, err := l.store.Run(ctx, read, []string{name}, MaxSize)
	if err != nil {
		return e, err
	}
	texts, err := r.Texts()
	if err != nil || len(texts) != 2 {
		return e, fmt.Errorf("ledger: unexpected answer of %d texts about %s: %w", len(texts), name, err)
	}
	if e.Seq, err = strconv.ParseUint(texts[0], 10, 53); err != nil {
		e.Seq = 0 // no write has made it
	}
	if texts[1] != "" && l.token.VerifyText(purpose(name), texts[1]) {
		e.Text = texts[1]
	}
	return e, nil
}

// WriteRecord writes the record of a key, which the writer owns under an epoch. after is the number of the
// write before. It returns the number of this one.
func (l *Ledger) WriteRecord(ctx context.Context, key string, epoch, after uint64, text string) (seq uint64, err error) {
	return l.write(ctx, l.recordName(key), []string{l.store.Name(store.TierHead, key)}, after, text, epoch)
}

// WriteBudget writes the budget. after is the number of the write before.
func (l *Ledger) WriteBudget(ctx context.Context, after uint64, text string) (seq uint64, err error) {
	return l.write(ctx, l.budgetName(), nil, after, text, 0)
}

func (l *Ledger) write(ctx context.Context, name string, and []string, after uint64, text string, epoch uint64) (seq uint64, err error) {
	r, err := l.store.Run(ctx, write, append([]string{name}, and...), keptFor.Milliseconds(), after, l.token.SignText(purpose(name), text), epoch)
	if err != nil {
		return 0, err
	}
	texts, err := r.Texts()
	if err != nil || len(texts) != 2 {
		return 0, fmt.Errorf("ledger: unexpected answer of %d texts about %s: %w", len(texts), name, err)
	}
	switch texts[0] {
	case "superseded":
		return 0, ErrSuperseded
	case "changed":
		return 0, ErrChanged
	}
	return strconv.ParseUint(texts[1], 10, 53)
}

// purpose is what a text is signed for.
func purpose(name string) string { return "rollout " + name }
