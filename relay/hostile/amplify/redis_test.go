package amplify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// tap passes on what a node and a Redis say, and sees when the node is sent a text.
type tap struct {
	address string

	mu     sync.Mutex
	wanted []byte        // guarded by mu; nil for nothing
	seen   chan struct{} // guarded by mu; closed when wanted was passed on
}

// startTap makes a tap of a Redis.
func startTap(t *testing.T, redis string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{address: l.Addr().String()}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(ctx, from, redis) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		all.Wait()
	})
	return p
}

// pass serves a connection until either side closes it, or ctx ends.
func (p *tap) pass(ctx context.Context, from net.Conn, redis string) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", redis, xdstest.Patience)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	var last []byte // the end of what was passed on, where a text may begin
	buffer := make([]byte, 64<<10)
	for {
		n, err := to.Read(buffer)
		if _, failed := from.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
		last = p.look(append(last, buffer[:n]...))
	}
}

// look looks for the text in what was passed on, and returns what has to be looked at
// again.
func (p *tap) look(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted != nil && bytes.Contains(b, p.wanted) {
		close(p.seen)
		p.wanted = nil
	}
	return bytes.Clone(b[max(0, len(b)-64):])
}

// expect returns what is closed when a text was passed on, of at most 64 bytes.
func (p *tap) expect(text string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted, p.seen = []byte(text), make(chan struct{})
	return p.seen
}

// vault is a Redis with a node that keeps its tier there.
type vault struct {
	*node

	redis *redistest.Server
	store *store.Store // of the test, for names and hints
	tap   *tap
	cc    *grpc.ClientConn
	sent  int
	// sample is what the node itself has written and said of a key.
	head, header string
	channel      string // that the node listens to for hints about the key
	record       []byte // before it is compressed
	rollout      string // the record of a rollout
}

// startVault starts a Redis, and a node by itself in a tier.
func startVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{redis: redistest.Start(t, redistest.Config{})}
	v.tap = startTap(t, v.redis.Addr())
	var err error
	v.store, err = store.New(store.Config{URL: v.redis.URL(), Prefix: "xdsrelay", Timeout: xdstest.Patience, Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.store.Close() })
	v.node = startNode(t, setup{Origin: startAnswers(t), Delta: true, Redis: "redis://" + v.tap.address})
	v.after = " settled" // nobody is told when it has read something
	v.cc = dial(t, v.XDS)
	v.takeSamples(t)
	return v
}

// takeSamples makes the node write of a key all that it keeps there.
func (v *vault) takeSamples(t *testing.T) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var client sync.WaitGroup
	client.Go(func() { _ = subscribe(ctx, v.cc, fleetKey) }) // until the end
	xdstest.Eventually(t, "the node to write the head of the key", func() bool {
		fields, _ := v.redis.Do("HGETALL", v.store.Name(store.TierHead, fleetKey)).([]any)
		for pair := range slices.Chunk(fields, 2) {
			if pair[0] != "epoch" {
				v.head = pair[1].(string)
			}
		}
		return v.head != ""
	})
	xdstest.Eventually(t, "the node to listen to hints about the key", func() bool {
		channels, _ := v.redis.Do("PUBSUB", "CHANNELS", v.store.Channel(store.HeadHints)+":*").([]any)
		if len(channels) > 0 {
			v.channel = channels[0].(string)
		}
		return v.channel != ""
	})
	xdstest.Eventually(t, "the node to write the record of rollouts of the key", func() bool {
		fields, _ := v.redis.Do("HGETALL", v.store.Name(store.RolloutRecord, fleetKey)).([]any)
		if i := slices.Index(fields, any("text")); i >= 0 {
			v.rollout = fields[i+1].(string)
		}
		return v.rollout != ""
	})
	name := v.store.Name(store.LastGoodRecord, fleetKey, content.ClusterURL)
	xdstest.Eventually(t, "the node to keep a record of the key", func() bool {
		kept, err := v.store.Get(ctx, name)
		if err != nil || len(kept) == 0 {
			return false
		}
		v.header, v.record = unsealed(t, kept)
		return true
	})
	end()
	client.Wait()
}

// redisRows are the rows of what a node reads from Redis: values and hints of all kinds
// that there are. One that no driver can write fails the test.
func (v *vault) redisRows(t *testing.T, all bool) (rows []row) {
	t.Helper()
	values := map[store.Kind]func(*testing.T, bool) []row{
		store.TierHead: v.headRows, store.HeadStamps: v.stampRows, store.LastGoodMarks: v.markRows, store.LastGoodRecord: v.recordRows,
		store.RolloutRecord: v.rolloutRows, store.RolloutBudget: v.budgetRows, store.RolloutOrders: v.ordersRows,
		store.MemberRecords: v.memberRows, // the last, since they change who owns a key
	}
	hints := map[store.Channel]func(*testing.T, bool) []row{store.HeadHints: v.headHintRows, store.MemberHints: v.memberHintRows}
	for _, c := range store.Channels() {
		if of := hints[c]; of != nil {
			rows = append(rows, of(t, all)...)
		} else {
			t.Errorf("the program listens to the channel %s in Redis, of which there is no row: add it to redisRows", c)
		}
	}
	kinds := store.Kinds()
	slices.Reverse(kinds)
	for _, k := range kinds {
		if of := values[k]; of != nil {
			rows = append(rows, of(t, all)...)
		} else {
			t.Errorf("the program keeps %s in Redis, of which there is no row: add it to redisRows", k)
		}
	}
	return rows
}

// marker is a text that no value has that was sent before.
func (v *vault) marker() string {
	v.sent++
	return fmt.Sprintf("marker-%d-of-what-was-sent", v.sent)
}

// await waits until the node was sent what was expected.
func (v *vault) await(t *testing.T, seen <-chan struct{}) {
	t.Helper()
	select {
	case <-seen:
	case <-time.After(xdstest.Patience):
		t.Fatal("the node does not read what is in Redis")
	}
}

// visit makes a client ask for a key, of which write has written something with a text in
// it, and waits until the node was sent that.
func (v *vault) visit(t *testing.T, write func(key, text string)) {
	t.Helper()
	text := v.marker()
	key := "key-" + text
	write(key, text)
	seen := v.tap.expect(text)
	ctx, end := context.WithTimeout(t.Context(), xdstest.Patience)
	defer end()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(v.cc).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err == nil {
		err = s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(key), TypeUrl: content.ClusterURL})
	}
	if err != nil {
		t.Fatal(err)
	}
	v.await(t, seen)
	if _, err := s.Recv(); err != nil {
		t.Errorf("a client is not served: %v", err)
	}
}

// spoiled are JSON objects of which one field is filled with something: the text of each,
// by the field and the pattern.
func spoiled(of map[string]json.RawMessage, all bool, with func(field, pattern string, fill func(size int) string)) {
	for _, field := range append(slices.Sorted(maps.Keys(of)), unknown) {
		for _, v := range jsonValues(all) {
			with(field, v.name, func(size int) string {
				object := maps.Clone(of)
				object[field] = json.RawMessage(v.fill(size))
				return text(object)
			})
		}
	}
}

// text is an object as it is written. Values may be nested deeper than the encoder allows.
func text(object map[string]json.RawMessage) string {
	var b strings.Builder
	for _, field := range slices.Sorted(maps.Keys(object)) {
		fmt.Fprintf(&b, ",%q:%s", field, object[field])
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// objectOf reads a JSON object.
func objectOf(t *testing.T, text string) (of map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &of); err != nil || len(of) == 0 {
		t.Fatalf("%.200q is no JSON object: %v", text, err)
	}
	return of
}

// memberHintRows are the rows of hints that a member has something to say.
func (v *vault) memberHintRows(*testing.T, bool) (rows []row) {
	for _, p := range parts {
		rows = append(rows, v.hintRow(store.MemberHints, v.store.Channel(store.MemberHints), "(hint)", p.name, p.fill))
	}
	return rows
}

func (v *vault) hintRow(on store.Channel, channel, field, pattern string, fill func(int) string) row {
	return row{surface: "Redis", message: "hints about " + on.String(), field: field, pattern: pattern, send: func(t *testing.T, size int) int {
		t.Helper()
		hint, last := fill(size), v.marker()
		seen := v.tap.expect(last)
		for _, text := range []string{hint, last} {
			v.redis.Do("PUBLISH", channel, text)
		}
		v.await(t, seen)
		return len(hint)
	}}
}

// memberRows are the rows of what members say of themselves.
func (v *vault) memberRows(_ *testing.T, all bool) (rows []row) {
	const one = "other"
	name := v.store.Name(store.MemberRecords, "members")
	add := func(field, pattern string, fill func(size int) []any) {
		rows = append(rows, row{surface: "Redis", message: store.MemberRecords.String(), field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			pairs, last := fill(size), v.marker()
			seen := v.tap.expect(last)
			v.hset(name, append(pairs, last, lease("")))
			v.await(t, seen)
			for i := 0; i < len(pairs); i += 2 {
				v.redis.Do("HDEL", name, pairs[i])
			}
			return length(pairs)
		}})
	}
	of := make(map[string]json.RawMessage)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[shard.Member]()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			of[tag] = json.RawMessage("null")
		}
	}
	of["name"], of["peer"] = json.RawMessage(quoted(one)), json.RawMessage(quoted("127.0.0.1:1"))
	spoiled(of, all, func(field, pattern string, fill func(int) string) {
		add(field, pattern, func(size int) []any { return []any{one, lease(fill(size))} })
	})
	for _, p := range parts {
		add("(value)", p.name, func(size int) []any { return []any{one, p.fill(size)} })
		add("(field)", p.name, func(size int) []any { return []any{p.fill(size), lease(text(of))} })
	}
	add("(field)", "equal entries", func(size int) (pairs []any) {
		for i := 0; length(pairs) < size; i++ {
			pairs = append(pairs, fmt.Sprint("x", i), lease(text(of)))
		}
		return pairs
	})
	return rows
}

// lease is the record of a member that says something of itself, whose lease ends soon.
func lease(says string) string {
	const long = 2 * time.Second
	return fmt.Sprintf("%d %d 1 x %s", time.Now().Add(long).UnixMilli(), long.Milliseconds(), says)
}

// hset writes fields of a hash, some at a time.
func (v *vault) hset(name string, pairs []any) {
	for some := range slices.Chunk(pairs, 1000) {
		v.redis.Do(append([]any{"HSET", name}, some...)...)
	}
}

// length is how many bytes texts have.
func length(texts []any) (n int) {
	for _, text := range texts {
		n += len(text.(string))
	}
	return n
}

// markRows are the rows of what is known of records.
func (v *vault) markRows(*testing.T, bool) (rows []row) {
	add := func(field, pattern string, fill func(size int) []any) {
		rows = append(rows, row{surface: "Redis", message: store.LastGoodMarks.String(), field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			pairs := fill(size)
			v.visit(t, func(key, text string) { v.hset(v.store.Name(store.LastGoodMarks, key), append(pairs, text, "x")) })
			return length(pairs)
		}})
	}
	for _, p := range parts {
		add("(value)", p.name, func(size int) []any { return []any{content.ClusterURL, p.fill(size)} })
		add("(field)", p.name, func(size int) []any { return []any{p.fill(size), "1 1 x"} })
	}
	add("(field)", "equal entries", func(size int) (pairs []any) {
		for i := 0; length(pairs) < size; i++ {
			pairs = append(pairs, strconv.Itoa(i), "1 1 x")
		}
		return pairs
	})
	return rows
}

// recordRows are the rows of records.
func (v *vault) recordRows(t *testing.T, all bool) (rows []row) {
	t.Helper()
	return spoiledRecords(t, "Redis", "last known good record", v.record, all, func(t *testing.T, spoil func(key string) []byte) int {
		t.Helper()
		size := 0
		v.visit(t, func(key, text string) {
			record := spoil(key)
			size = len(record)
			v.hset(v.store.Name(store.LastGoodMarks, key), []any{content.ClusterURL, "1 1 x"})
			v.redis.Do("SET", v.store.Name(store.LastGoodRecord, key, content.ClusterURL), append(sealed(t, v.header, record), skipped(text)...))
		})
		return size
	})
}
