package scenario

import (
	"io"
	"net"
	"strings"
	"testing"

	"xdsrelay/bench/report"
)

// TestTier holds that what nodes exchange is counted to the byte, without what counting adds.
func TestTier(t *testing.T) {
	tier, err := startTier(t.Context(), 2, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tier.close(); err != nil {
			t.Error(err)
		}
	}()
	before, err := tier.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	redis, err := net.Dial("tcp", tier.redis.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	const script = "EVAL \"redis.call('SET', 'a', '1') return redis.call('GET', 'a')\" 0\r\n"
	echo(t, redis, script, "$1\r\n1\r\n")
	echo(t, redis, "PING\r\n", "+PONG\r\n")

	l, err := net.Listen("tcp", tier.peers[1].to)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	peer, err := net.Dial("tcp", tier.peers[1].listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	echo(t, peer, "question", "question")
	_ = peer.Close()
	if c, err := net.Dial("tcp", tier.peers[0].listener.Addr().String()); err != nil { // nobody is behind it
		t.Error(err)
	} else if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes from a node that does not run", n)
	}

	after, err := tier.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := report.Tier{
		Calls: after.Calls - before.Calls, Scripted: after.Scripted - before.Scripted,
		RedisIn: after.RedisIn - before.RedisIn, RedisOut: after.RedisOut - before.RedisOut, Peers: after.Peers - before.Peers,
	}
	want := report.Tier{
		Calls: 2, Scripted: 2, RedisIn: int64(len(script) + len("PING\r\n")), RedisOut: int64(len("$1\r\n1\r\n+PONG\r\n")), Peers: 2 * int64(len("question")),
	}
	if got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if config := tier.config(1); !strings.Contains(config, tier.redis.addr) || !strings.Contains(config, tier.peers[1].to) {
		t.Errorf("configuration %q", config)
	}
	for _, bad := range []string{"", "total_net_input_bytes:1\n", "cmdstat_ping:calls=99999999999999999999,\n"} {
		if use, err := parseInfo(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, use)
		}
	}
}

// echo sends a text and holds what is answered.
func echo(t *testing.T, conn net.Conn, text, want string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("%q was answered by %q (%v), expected %q", text, got, err, want)
	}
}
