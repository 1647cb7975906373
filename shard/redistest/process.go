package redistest

import (
	"context"
	"net"
	"os"

	"xdsrelay/shard/redistest/standin"
)

// EnvStandIn is the variable that makes Start start stand-ins, where nothing of the
// Config needs a real server: so the tests that use Start say of them what they say of a
// redis-server.
const EnvStandIn = "XDSRELAY_REDIS_STANDIN"

// standsIn reports whether a stand-in is wanted, and can be had.
func (c Config) standsIn() bool {
	return os.Getenv(EnvStandIn) != "" && !c.Real && c.Password == "" && c.CertFile == "" && len(c.Args) == 0
}

// double is a stand-in that runs, and listens for TCP.
type double struct{ *standin.Server }

// startDouble starts one at an address.
func startDouble(addr string) (*double, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	d := &double{standin.New()}
	go d.Serve(l)
	return d, nil
}
