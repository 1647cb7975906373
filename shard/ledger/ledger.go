// Package ledger has in Redis what the nodes of a tier agree on about rollouts: the record of each key, the
// budget of the tier, and the orders of operators. A record is written by the owner of its key alone: each
// write names the epoch under which the writer owns the key, and the number of the write before it, and Redis
// compares both. So of two nodes that both believe to be the owner, only one can let more clients have a
// revision.
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
	// Contents is a second text of a record: what is large, and changes less often.
	Contents string // JSON
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
// what became of it, the number of the last write, and 1 if the entry has contents. An entry that is missing,
// since Redis has lost it, is written whatever the number. Numbers that no write can have made are ignored.
// Contents, the last of ARGV, replace those before unless they are empty.
var write = store.NewScript("ledger_write", `
local function number(text)
	local n = tonumber(text) or 0
	return n > 0 and n < 9007199254740990 and n or 0
end
local epoch = number(ARGV[4])
if KEYS[2] then
	local held = math.max(number(redis.call('HGET', KEYS[2], 'epoch')), number(redis.call('HGET', KEYS[1], 'epoch')))
	if held > epoch then return {'superseded', string.format('%.0f', held), '0'} end
end
local seq, last = number(redis.call('HGET', KEYS[1], 'seq')), number(ARGV[2])
if seq > 0 and seq ~= last then return {'changed', string.format('%.0f', seq), '0'} end
seq = math.max(seq, last) + 1
redis.call('HSET', KEYS[1], 'seq', string.format('%.0f', seq), 'text', ARGV[3])
if KEYS[2] then redis.call('HSET', KEYS[1], 'epoch', ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'contents', ARGV[5], 'has', '1') end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {'written', string.format('%.0f', seq), redis.call('HGET', KEYS[1], 'has') or '0'}
`)

// read returns the number of the last write, and the text and the contents unless they are longer than ARGV[1].
var read = store.NewScript("ledger_read", `
local function text(field)
	local text = redis.call('HGET', KEYS[1], field) or ''
	return #text > tonumber(ARGV[1]) and '' or text
end
return {redis.call('HGET', KEYS[1], 'seq') or '0', text('text'), text('contents')}
`)

func (l *Ledger) recordName(key string) string { return l.store.Name(store.RolloutRecord, key) }

const budgetTag = "rollouts"

func (l *Ledger) budgetName() string { return l.store.Name(store.RolloutBudget, budgetTag) }

func (l *Ledger) ordersName() string { return l.store.Name(store.RolloutOrders, budgetTag) }

// Record reads the record of a key. One without a valid signature counts as absent, but its number counts.
func (l *Ledger) Record(ctx context.Context, key string) (Entry, error) {
	return l.read(ctx, l.recordName(key))
}

// Budget reads the budget.
func (l *Ledger) Budget(ctx context.Context) (Entry, error) { return l.read(ctx, l.budgetName()) }

// Orders reads the orders of operators. Those without a valid signature count as absent, but their number counts.
func (l *Ledger) Orders(ctx context.Context) (Entry, error) { return l.read(ctx, l.ordersName()) }

func (l *Ledger) read(ctx context.Context, name string) (e Entry, err error) {
	r, err := l.store.Run(ctx, read, []string{name}, MaxSize)
	if err != nil {
		return e, err
	}
	texts, err := r.Texts()
	if err != nil || len(texts) != 3 {
		return e, fmt.Errorf("ledger: unexpected answer of %d texts about %s: %w", len(texts), name, err)
	}
	if e.Seq, err = strconv.ParseUint(texts[0], 10, 53); err != nil {
		e.Seq = 0 // no write has made it
	}
	if texts[1] != "" && l.token.VerifyText(purpose(name), texts[1]) {
		e.Text = texts[1]
	}
	if texts[2] != "" && l.token.VerifyText(contentsPurpose(name), texts[2]) {
		e.Contents = texts[2]
	}
	return e, nil
}

// Written is what became of a write.
type Written struct {
	Seq uint64 // the number of the write
	// HasContents says that the entry has contents, of this write or of an earlier one.
	HasContents bool
}

// WriteRecord writes the record of a key, which the writer owns under an epoch. Its number is that of the write
// before. Contents that are empty leave those of the entry as they are.
func (l *Ledger) WriteRecord(ctx context.Context, key string, epoch uint64, e Entry) (Written, error) {
	return l.write(ctx, l.recordName(key), []string{l.store.Name(store.TierHead, key)}, e, epoch)
}

// WriteBudget writes the budget. Its number is that of the write before.
func (l *Ledger) WriteBudget(ctx context.Context, after uint64, text string) (seq uint64, err error) {
	w, err := l.write(ctx, l.budgetName(), nil, Entry{Seq: after, Text: text}, 0)
	return w.Seq, err
}

// WriteOrders writes the orders of operators. after is the number of the write before.
func (l *Ledger) WriteOrders(ctx context.Context, after uint64, text string) (seq uint64, err error) {
	w, err := l.write(ctx, l.ordersName(), nil, Entry{Seq: after, Text: text}, 0)
	return w.Seq, err
}

func (l *Ledger) write(ctx context.Context, name string, and []string, e Entry, epoch uint64) (w Written, err error) {
	contents := e.Contents
	if contents != "" {
		contents = l.token.SignText(contentsPurpose(name), contents)
	}
	r, err := l.store.Run(ctx, write, append([]string{name}, and...), keptFor.Milliseconds(), e.Seq, l.token.SignText(purpose(name), e.Text), epoch, contents)
	if err != nil {
		return w, err
	}
	texts, err := r.Texts()
	if err != nil || len(texts) != 3 {
		return w, fmt.Errorf("ledger: unexpected answer of %d texts about %s: %w", len(texts), name, err)
	}
	switch texts[0] {
	case "superseded":
		return w, ErrSuperseded
	case "changed":
		return w, ErrChanged
	}
	w.HasContents = texts[2] == "1"
	w.Seq, err = strconv.ParseUint(texts[1], 10, 53)
	return w, err
}

// purpose is what a text is signed for, and contentsPurpose what contents are.
func purpose(name string) string         { return "rollout " + name }
func contentsPurpose(name string) string { return "rollout contents " + name }
