package redistest

import (
	"context"
	"net"
	"os"

	"xdsrelay/shard/redistest/standin"
)

// EnvStandIn is the environment variable that makes Start use stand-ins, if nothing in Config
// requires a real server. So the tests that use Start prove the same of a stand-in as of a
// redis-server.
const EnvStandIn = "XDSRELAY_REDIS_STANDIN"

// standsIn reports whether a stand-in is wanted and possible.
func (c Config) standsIn() bool {
	return os.Getenv(EnvStandIn) != "" && !c.Real && c.Password == "" && c.CertFile == "" && len(c.Args) == 0
}

// double is a running stand-in that listens on TCP.
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
