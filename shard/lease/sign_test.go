package lease_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/lease"
	"xdsrelay/shard/redistest"
)

const oldToken, newToken = "the-old-token-of-the-tier", "the-new-token-of-the-tier"

// tokenOf reads a token file with these lines.
func tokenOf(t *testing.T, lines ...string) *secure.Token {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := secure.NewToken(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestSigned: with a token only nodes that have it are members, whatever others write to Redis;
// during a rotation, nodes that have both tokens are one tier.
func TestSigned(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	signed := func(name string, lines ...string) *node {
		n := prepare(t, server.URL(), lease.Config{Self: shard.Member{Name: name}, Lease: long, Token: tokenOf(t, lines...)}, patience)
		n.Enter()
		return n
	}
	a, b := signed("a", oldToken, newToken), signed("b", newToken, oldToken)
	a.sees("a", "b")
	b.sees("a", "b")
	if b.log.count("signature") > 0 {
		t.Errorf("b complains:\n%s", b.log)
	}

	const hash, head = "test:{members}", "99999999999999 300000 1 i "
	record, ok := server.Do("HGET", hash, "b").(string)
	if !ok || !strings.Contains(record, `"signature":"`) {
		t.Fatalf("the record of b is %q", record)
	}
	_, text, _ := strings.Cut(record, "{")
	text = "{" + text
	server.Do("HSET", hash,
		"plain", head+`{"name":"plain","peer":"plain:1"}`,
		"empty", head+`{"name":"empty","peer":"empty:1","signature":""}`,
		"short", head+`{"name":"short","peer":"short:1","signature":"00"}`,
		"zero", head+`{"name":"zero","peer":"zero:1","signature":"`+strings.Repeat("0", 64)+`"}`,
		"copied", head+text,
		"renamed", head+strings.Replace(text, `"name":"b"`, `"name":"renamed"`, 1),
		"moved", head+strings.Replace(strings.Replace(text, `"name":"b"`, `"name":"moved"`, 1), "b:1", "moved:1", 1),
		"twice", head+strings.TrimSuffix(text, "}")+`,"name":"twice","peer":"twice:1"}`,
	)
	c := signed("c", newToken)
	c.sees("b", "c") // a signs with the old token, which c does not have
	eventually(t, "c to complain", func() bool { return c.log.count("without a valid signature") == 1 })
	b.sees("a", "b", "c")
	if names, since := c.Foreign(); len(names) == 0 || since.IsZero() {
		t.Errorf("c reports %v since %v", names, since)
	}
	if names, _ := a.Foreign(); slices.Contains(names, "b") {
		t.Errorf("a reports %v", names)
	}

	// Nor is a record valid in another tier of the same Redis.
	server.Do("COPY", hash, "other:{members}")
	other := prepareIn(t, "other", server.URL(), lease.Config{Self: shard.Member{Name: "d"}, Lease: long, Token: tokenOf(t, newToken, oldToken)}, patience)
	eventually(t, "a complaint in the other tier", func() bool { return other.log.count("without a valid signature") == 1 })
	other.sees("d")
}

// TestEnter: a node that has not entered sees the others, and none of them sees it: it may be
// unable to bind its ports.
func TestEnter(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	a := join(t, server.URL(), shard.Member{Name: "a"}, long, patience)
	b := prepare(t, server.URL(), lease.Config{Self: shard.Member{Name: "b"}, Lease: long}, patience)
	b.sees("a", "b")
	if there := server.Do("HEXISTS", "test:{members}", "b"); there != int64(0) {
		t.Error("b is in Redis before it has entered")
	}
	b.Enter()
	a.sees("a", "b")
}

// TestLeft: the others know that a member left on purpose, however fast it was.
func TestLeft(t *testing.T) {
	t.Parallel() // mostly waits
	server := redistest.Start(t, redistest.Config{})
	const term = 3 * time.Second
	a := join(t, server.URL(), shard.Member{Name: "a"}, term, patience)
	b := join(t, server.URL(), shard.Member{Name: "b"}, term, patience)
	c := join(t, server.URL(), shard.Member{Name: "c"}, term, patience)
	a.sees("a", "b", "c")
	leaves, dies := a.member("b"), a.member("c")
	c.Close()
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Close()
	a.sees("a")
	if !a.Left(leaves) || a.Left(dies) {
		t.Errorf("a knows that b left: %t, that c did: %t", a.Left(leaves), a.Left(dies))
	}
	again := join(t, server.URL(), shard.Member{Name: "b"}, term, patience)
	a.sees("a", "b")
	if a.Left(again.Self()) || a.Left(leaves) {
		t.Error("b is there again, and said to have left")
	}
}

// TestLeftWhileCutOff: a node that had no connection to Redis while another one left, and for
// longer than its lease, knows afterwards that it left on purpose.
func TestLeftWhileCutOff(t *testing.T) {
	t.Parallel() // mostly waits
	server := redistest.Start(t, redistest.Config{})
	proxy := xdstest.NewNetwork(t, server.Addr())
	const term = 3 * time.Second
	a := join(t, strings.Replace(server.URL(), server.Addr(), proxy.Addr(), 1), shard.Member{Name: "a"}, term, time.Second)
	b := join(t, server.URL(), shard.Member{Name: "b"}, term, patience)
	c := join(t, server.URL(), shard.Member{Name: "c"}, term, patience)
	for _, n := range []*node{a, c} {
		n.sees("a", "b", "c")
	}
	leaves := a.member("b")
	proxy.Refuse()
	proxy.Cut()
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Close()
	<-time.After(term * 3 / 2) // so that the lease of the node that left would have ended
	if err := proxy.Heal(); err != nil {
		t.Fatal(err)
	}
	a.sees("a", "c")
	if !a.Left(leaves) || a.log.count("disappeared") != 0 {
		t.Errorf("a knows that b left: %t", a.Left(leaves))
	}
}

// TestDrainedAndKilled: a node that is killed while it drains counts as left, not as disappeared.
func TestDrainedAndKilled(t *testing.T) {
	t.Parallel() // mostly waits
	server := redistest.Start(t, redistest.Config{})
	const term = 3 * time.Second
	a := join(t, server.URL(), shard.Member{Name: "a"}, term, patience)
	b := join(t, server.URL(), shard.Member{Name: "b"}, term, patience)
	a.sees("a", "b")
	b.Announce(shard.Status{Draining: true})
	eventually(t, "a to see that b drains", func() bool { return a.member("b").Draining })
	leaves := a.member("b")
	b.Close() // without Leave
	a.sees("a")
	if !a.Left(leaves) || a.log.count("disappeared") != 0 || a.log.count("level=WARN") != 0 {
		t.Errorf("a knows that b left: %t", a.Left(leaves))
	}
}
