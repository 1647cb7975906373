package ledger

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

func open(t *testing.T, redis *redistest.Server, token string) (*Ledger, *store.Store) {
	t.Helper()
	s, err := store.New(store.Config{URL: redis.URL(), Mode: store.Standalone, Prefix: "test", Timeout: xdstest.Patience, Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if token == "" {
		return New(s, nil), s
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret, err := secure.NewToken(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return New(s, secret), s
}

func (l *Ledger) writes(t *testing.T, epoch, after uint64, text string, want error) (seq uint64) {
	t.Helper()
	w, err := l.WriteRecord(t.Context(), "key", epoch, Entry{Seq: after, Text: text})
	if !errors.Is(err, want) {
		t.Errorf("a write under epoch %d after %d: %v, expected %v", epoch, after, err, want)
	}
	return w.Seq
}

func (l *Ledger) has(t *testing.T, want Entry) {
	t.Helper()
	is, err := l.Record(t.Context(), "key")
	if is.Text, _, _ = strings.Cut(is.Text, `,"signature"`); err != nil || is.Seq != want.Seq || is.Text != strings.TrimSuffix(want.Text, "}") && is.Text != want.Text {
		t.Errorf("the record is %+v, %v, expected %+v", is, err, want)
	}
}

// TestRecord: a write counts only if the writer owns the key under the newest epoch, and knows the write
// before. A record that Redis has lost is written whatever the number.
func TestRecord(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	l, s := open(t, redis, "")
	l.has(t, Entry{})
	claim := func(epoch string) { redis.Do("HSET", s.Name(store.TierHead, "key"), "epoch", epoch) }
	claim("5")
	l.writes(t, 4, 0, `{"a":1}`, ErrSuperseded)
	if seq := l.writes(t, 5, 0, `{"a":1}`, nil); seq != 1 {
		t.Errorf("the first write has the number %d", seq)
	}
	l.writes(t, 5, 0, `{"a":2}`, ErrChanged)
	l.has(t, Entry{Seq: 1, Text: `{"a":1}`})
	l.writes(t, 5, 1, `{"a":2}`, nil)
	claim("6")
	l.writes(t, 5, 2, `{"a":3}`, ErrSuperseded)
	l.writes(t, 6, 2, `{"a":4}`, nil)
	redis.Do("DEL", s.Name(store.TierHead, "key")) // as after a failover in a cluster
	l.writes(t, 5, 3, `{"a":5}`, ErrSuperseded)
	l.has(t, Entry{Seq: 3, Text: `{"a":4}`})
	redis.Flush()
	l.has(t, Entry{})
	if seq := l.writes(t, 6, 3, `{"a":6}`, nil); seq != 4 {
		t.Errorf("the write after a loss has the number %d", seq)
	}
}

// TestContents: contents stay until others are written, and a write says whether there are any: Redis may have
// lost them. Those that are not signed count as absent.
func TestContents(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	l, s := open(t, redis, "the-secret-of-the-tier")
	write := func(after uint64, contents string, want Written) {
		t.Helper()
		if w, err := l.WriteRecord(t.Context(), "key", 1, Entry{after, `{"a":1}`, contents}); err != nil || w != want {
			t.Errorf("written: %+v, %v, expected %+v", w, err, want)
		}
	}
	contents := func(want string) {
		t.Helper()
		e, err := l.Record(t.Context(), "key")
		if is, _, _ := strings.Cut(e.Contents, `,"signature"`); err != nil || is != strings.TrimSuffix(want, "}") {
			t.Errorf("the contents are %+v, %v, expected %q", e, err, want)
		}
	}
	write(0, "", Written{1, false})
	contents("")
	write(1, `{"b":1}`, Written{2, true})
	write(2, "", Written{3, true})
	contents(`{"b":1}`)
	redis.Flush()
	write(3, "", Written{4, false})
	contents("")
	write(4, `{"b":2}`, Written{5, true})
	text := redis.Do("HGET", s.Name(store.RolloutRecord, "key"), "text")
	redis.Do("HSET", s.Name(store.RolloutRecord, "key"), "contents", text)
	contents("")
	redis.Do("HSET", s.Name(store.RolloutRecord, "key"), "contents", strings.Repeat("x", MaxSize+1))
	contents("")
}

// TestOrders: of two writes after the same one, one counts.
func TestOrders(t *testing.T) {
	l, _ := open(t, redistest.Start(t, redistest.Config{}), "")
	for want, text := range []string{`{"a":1}`, `{"a":2}`} {
		if seq, err := l.WriteOrders(t.Context(), uint64(want), text); err != nil || seq != uint64(want)+1 {
			t.Errorf("write %d: %d, %v", want, seq, err)
		}
	}
	if _, err := l.WriteOrders(t.Context(), 1, `{"a":3}`); !errors.Is(err, ErrChanged) {
		t.Errorf("a write after an older one: %v", err)
	}
	if e, err := l.Orders(t.Context()); err != nil || e != (Entry{Seq: 2, Text: `{"a":2}`}) {
		t.Errorf("the orders are %+v, %v", e, err)
	}
}

// TestBudget: of two writes after the same one, one counts.
func TestBudget(t *testing.T) {
	l, _ := open(t, redistest.Start(t, redistest.Config{}), "")
	if _, err := l.WriteBudget(t.Context(), 0, `{"a":1}`); err != nil {
		t.Fatal(err)
	}
	if _, err := l.WriteBudget(t.Context(), 0, `{"a":2}`); !errors.Is(err, ErrChanged) {
		t.Errorf("the second write: %v", err)
	}
	if e, err := l.Budget(t.Context()); err != nil || e != (Entry{Seq: 1, Text: `{"a":1}`}) {
		t.Errorf("the budget is %+v, %v", e, err)
	}
}

// TestForged: what is written to Redis without the token of the tier, is too long, or has numbers that no
// write makes, counts as absent, and is replaced.
func TestForged(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	l, s := open(t, redis, "the-secret-of-the-tier")
	unsigned, _ := open(t, redis, "")
	unsigned.writes(t, 1, 0, `{"a":1}`, nil)
	l.has(t, Entry{Seq: 1})
	l.writes(t, 1, 1, `{"a":2}`, nil)
	l.has(t, Entry{Seq: 2, Text: `{"a":2}`})
	for _, seq := range []string{"x", "-1", "1e300", "99999999999999999999", "nan"} {
		redis.Do("HSET", s.Name(store.RolloutRecord, "key"), "seq", seq, "epoch", seq)
		e, err := l.Record(t.Context(), "key")
		if err != nil || e.Seq != 0 {
			t.Errorf("the number %s: %+v, %v", seq, e, err)
		}
		l.writes(t, 2, 7, `{"a":3}`, nil)
	}
	e, err := l.Record(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	redis.Do("HSET", s.Name(store.RolloutRecord, "key"), "text", strings.Repeat("x", MaxSize+1))
	l.has(t, Entry{Seq: e.Seq})
	l.writes(t, 2, e.Seq, `{"a":4}`, nil)
}
