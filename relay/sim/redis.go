package sim

import (
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest/standin"
)

// redisAddr is where the nodes find Redis.
const redisAddr = "127.0.0.2:6379"

// redis is a machine with a stand-in for Redis.
type redis struct {
	world  *World
	host   *xdstest.Host   // nil while it is down
	server *standin.Server // an empty one that nobody reaches while it is down
	ill    int             // how many events make it refuse, or forget
}

// start starts it, empty.
func (r *redis) start() {
	if r.host != nil {
		return
	}
	if r.server != nil {
		r.server.Close()
	}
	r.server = standin.New()
	r.host = r.world.network.memory.NewHost(redisHost, "127.0.0.2")
	l, err := r.host.Listen(redisAddr)
	if err != nil {
		r.world.t.Fatalf("redis: %v", err)
	}
	r.server.ReadOnly(r.ill > 0)
	server := r.server
	go server.Serve(l)
}

// kill ends it; what it held is lost.
func (r *redis) kill() {
	if r.host == nil {
		return
	}
	r.host.Vanish(true)
	r.host = nil
	r.server.Close()
	r.server = standin.New()
}

// readOnly begins or ends one of the reasons to refuse writes.
func (r *redis) readOnly(more int) {
	r.ill += more
	r.server.ReadOnly(r.ill > 0)
}

func (r *redis) close() {
	r.kill()
	r.server.Close()
}
