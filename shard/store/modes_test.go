package store_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestCluster: in a cluster, names of all tags can be used, and hints reach their subscribers;
// while one of its masters is down calls fail, and are made again when it is back.
func TestCluster(t *testing.T) {
	t.Parallel() // mostly waits
	cluster := redistest.StartCluster(t)
	s, _ := open(t, cluster.URL(), func(c *store.Config) { c.Mode = store.Cluster })
	for _, tag := range []string{"", "a", "}", "{", "{}", "a}b", "%7D", "{a}{b}"} {
		slot := func(name string) any { return cluster.Masters[0].Do("CLUSTER", "KEYSLOT", name) }
		if a, b, c := slot(s.Name(store.TierHead, tag)), slot(s.Name(store.TierHead, tag, "x")), slot(hashed(s.Name(store.TierHead, tag))); a != b || b != c {
			t.Errorf("%q is at %v, %v and %v", tag, a, b, c)
		}
	}
	add := store.NewScript("add", `return redis.call('INCRBY', KEYS[1], 1) + redis.call('INCRBY', KEYS[2], 1)`)
	var calls []store.Call
	for i := range 50 {
		tag := fmt.Sprint(i)
		keys := []string{s.Name(store.TierHead, tag, "a"), s.Name(store.TierHead, tag, "b")}
		if r, err := s.Run(t.Context(), add, keys); err != nil {
			t.Fatal(err)
		} else if n, err := r.Int(); n != 2 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
		calls = append(calls, store.Call{Keys: keys})
	}
	results, err := s.RunEach(t.Context(), add, calls)
	for i, r := range results {
		if n, intErr := r.Int(); n != 4 || err != nil || intErr != nil {
			t.Fatalf("call %d: got %d, %v", i, n, err)
		}
	}
	hints := s.Hints(t.Context(), store.HeadHints)
	next(t, hints)
	eventually(t, "a hint to arrive", func() bool { return s.Hint(t.Context(), store.HeadHints, "x") == nil })
	for h := next(t, hints); h.Payload != "x"; h = next(t, hints) {
	}

	master := cluster.Of(s.Name(store.TierHead, "a"))
	master.Kill()
	until(t, s, "a call to fail", func(err error) bool { return err != nil })
	master.Start()
	until(t, s, "calls to be made again", isOK)
}

// TestSentinel: the store uses the master that the sentinels name, and its replica after a
// failover.
func TestSentinel(t *testing.T) {
	t.Parallel() // mostly waits
	tier := redistest.StartSentinels(t)
	s, _ := open(t, tier.URL(), func(c *store.Config) {
		c.Mode, c.Master, c.Timeout = store.Sentinel, redistest.MasterName, 5*time.Second
	})
	name := s.Name(store.TierHead, "a")
	if err := s.Set(t.Context(), name, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	hints := s.Hints(t.Context(), store.HeadHints)
	next(t, hints)
	eventually(t, "the replica to have it", func() bool { return tier.Replica.Do("DBSIZE") == int64(1) })
	tier.Master.Kill()
	tier.AwaitFailover()
	until(t, s, "calls to be made again", isOK)
	if v, err := s.Get(t.Context(), name); string(v) != "x" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	eventually(t, "writes to be taken", func() bool { return s.Set(t.Context(), name, []byte("y"), 0) == nil })
	if v := tier.Replica.Do("GET", name); v != "y" {
		t.Errorf("the new master has %v", v)
	}
	if h := next(t, hints); !h.Missed {
		t.Errorf("got %+v after the failover", h)
	}
}

// TestTLS: both sides have certificates; without a client certificate Redis accepts no call.
func TestTLS(t *testing.T) {
	authority := xdstest.NewAuthority(t, "redis")
	var files secure.Config
	files.CertFile, files.KeyFile, files.CAFile = authority.WriteFiles(t.TempDir(), "127.0.0.1")
	server := redistest.Start(t, redistest.Config{Password: "p", CertFile: files.CertFile, KeyFile: files.KeyFile, CAFile: files.CAFile})
	with := func(f secure.Config) func(*store.Config) {
		client, err := secure.NewClient(f, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return func(c *store.Config) { c.TLS = client.Config }
	}
	s, _ := open(t, server.URL(), with(files))
	until(t, s, "a call to succeed", isOK)
	hints := s.Hints(t.Context(), store.HeadHints)
	next(t, hints)
	for name, change := range map[string]func(*store.Config){
		"no certificate":    with(secure.Config{CAFile: files.CAFile}),
		"a wrong name":      with(secure.Config{CAFile: files.CAFile, CertFile: files.CertFile, KeyFile: files.KeyFile, ServerName: "redis.example"}),
		"unknown authority": func(*store.Config) {},
		"an old version": func(c *store.Config) {
			c.TLS = func(string) *tls.Config { return &tls.Config{MaxVersion: tls.VersionTLS11} }
		},
	} {
		s, _ := open(t, server.URL(), change)
		if _, err := s.Get(t.Context(), s.Name(store.TierHead, "a")); err == nil {
			t.Errorf("%s: a call succeeded", name)
		}
	}
}

// TestWorkloadAPI: the certificates of both sides have SPIFFE ids. The client certificate and the
// trusted authorities come from a Workload API, also when they change; a server with another id is
// rejected.
func TestWorkloadAPI(t *testing.T) {
	old, after := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	dir := t.TempDir()
	cert, key, ca := old.WriteFiles(dir, "spiffe://corp.test/redis")
	server := redistest.Start(t, redistest.Config{CertFile: cert, KeyFile: key, CAFile: ca})
	api := xdstest.NewWorkloadAPI(t)
	api.Set("spiffe://corp.test/relay", old, nil)
	w, err := secure.DialWorkload(api.Address(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	of := func(id string) func(*store.Config) {
		client, err := secure.NewClient(secure.Config{Workload: w, PeerIDs: []string{id}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return func(c *store.Config) { c.TLS = client.Config }
	}
	s, _ := open(t, server.URL(), of("spiffe://corp.test/redis"))
	until(t, s, "a call to succeed", isOK)
	wrong, _ := open(t, server.URL(), of("spiffe://corp.test/other"))
	if _, err := wrong.Get(t.Context(), wrong.Name(store.TierHead, "a")); err == nil {
		t.Error("a call to a Redis of another id succeeded")
	}

	api.Set("spiffe://corp.test/relay", after, nil)
	fresh := func() error { // over a new connection
		s, _ := open(t, server.URL(), of("spiffe://corp.test/redis"))
		defer s.Close()
		_, err := s.Get(t.Context(), s.Name(store.TierHead, "a"))
		return err
	}
	eventually(t, "a Redis of the old authority to be refused", func() bool { return fresh() != nil })
	until(t, s, "calls to go on over connections from before", isOK)
	after.WriteFiles(dir, "spiffe://corp.test/redis")
	server.Restart()
	until(t, s, "calls to be made again", isOK)
	if err := fresh(); err != nil {
		t.Errorf("with certificates of the new authority on both sides: %v", err)
	}
}
