package robust

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// loopback is an address of 127/8 that is this run's alone, so that its ports stay
// free while nothing listens there: neither other runs nor outgoing connections,
// which come from 127.0.0.1, use them. Only Linux has all of 127/8.
type loopback string

func newLoopback() loopback {
	return loopback(fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 2+rand.IntN(250)))
}

func (l loopback) port(number int) string { return net.JoinHostPort(string(l), fmt.Sprint(number)) }
