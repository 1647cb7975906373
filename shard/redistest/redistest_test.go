package redistest_test

import (
	"testing"

	"go.uber.org/goleak"

	"xdsrelay/shard/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServer: a server can be killed, paused and restarted, and keeps its address.
func TestServer(t *testing.T) {
	s := redistest.Start(t, redistest.Config{Password: "p"})
	addr := s.Addr()
	s.Do("SET", "a", "1")
	s.Pause()
	s.Resume()
	if v := s.Do("GET", "a"); v != "1" {
		t.Errorf("got %v", v)
	}
	s.Flush()
	if v := s.Do("EXISTS", "a"); v != int64(0) {
		t.Errorf("not flushed: %v", v)
	}
	s.Do("SET", "a", "1")
	s.Restart()
	if v := s.Do("EXISTS", "a"); v != int64(0) || s.Addr() != addr {
		t.Errorf("after a restart at %s: %v", s.Addr(), v)
	}
	s.Pause()
	s.Kill()
	s.Start()
}

// TestCluster: each name has a master.
func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		c.Of(name).Do("SET", name, "1")
	}
	c.Masters[1].Restart() // it remembers its identity
	c.Await()
	c.Of("a").Do("GET", "a")
}

// TestSentinels: the replica becomes the master when the master dies.
func TestSentinels(t *testing.T) {
	s := redistest.StartSentinels(t)
	s.Master.Do("SET", "a", "1")
	s.Master.Do("WAIT", 1, 0)
	s.Master.Kill()
	s.AwaitFailover()
	if v := s.Replica.Do("GET", "a"); v != "1" {
		t.Errorf("got %v", v)
	}
}
