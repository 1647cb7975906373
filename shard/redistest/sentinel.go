package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"xdsrelay/relay/xdstest"
)

// MasterName is the name of the master in the sentinels.
const MasterName = "main"

// Sentinels are a master and its replica, and three sentinels that watch them.
type Sentinels struct {
	// Master and Replica are the initial roles of the servers.
	Master, Replica *Server
	// Sentinels watch them; two of them can make a replica the master.
	Sentinels []*Server
}

// StartSentinels starts five servers and waits until they know each other.
func StartSentinels(t xdstest.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: Start(t, Config{Args: []string{"--repl-diskless-sync-delay", "0"}})}
	host, port, _ := net.SplitHostPort(s.Master.Addr())
	s.Replica = Start(t, Config{Args: []string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"}})
	s.Replica.AwaitReplica()
	for range 3 {
		sentinel := newServer(t, "sentinel", Config{})
		sentinel.file = filepath.Join(sentinel.dir, "sentinel.conf")
		text := fmt.Sprintf("dir %s\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s 2000\nsentinel failover-timeout %s 10000\n",
			sentinel.dir, MasterName, host, port, MasterName, MasterName)
		if err := os.WriteFile(sentinel.file, []byte(text), 0o600); err != nil {
			t.Fatalf("sentinel: %v", err)
		}
		sentinel.Start()
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	for _, sentinel := range s.Sentinels {
		sentinel.await("to know the others", func() bool {
			v, _ := sentinel.Do("SENTINEL", "MASTER", MasterName).([]any)
			known := map[any]any{}
			for i := 0; i+1 < len(v); i += 2 {
				known[v[i]] = v[i+1]
			}
			return known["num-other-sentinels"] == "2" && known["num-slaves"] == "1"
		})
	}
	return s
}

// URL has the addresses of all sentinels.
func (s *Sentinels) URL() string {
	url, separator := "redis://"+s.Sentinels[0].Addr(), "?"
	for _, sentinel := range s.Sentinels[1:] {
		url += separator + "addr=" + sentinel.Addr()
		separator = "&"
	}
	return url
}

// AwaitFailover waits until the replica is the master.
func (s *Sentinels) AwaitFailover() {
	s.Replica.t.Helper()
	s.Replica.AwaitMaster()
}
