package grpcgo

import (
	"context"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/transport"
)

// inlineBudget is the number of unacknowledged bytes that the transport accepts before a send may
// block: the write quota of a stream in grpc-go. The quota includes the headers of messages.
const inlineBudget = 64 << 10

// call is a stream of grpc-go.
type call struct {
	// Fixed before requests are read.
	grpc    grpc.ServerStream
	client  transport.Client
	adapter *Adapter

	header [transport.HeaderSize]byte // of the newest request; owned by the handler goroutine
	gzip   bool                       // see Compress

	reason  atomic.Pointer[error] // of the first End
	senders sync.WaitGroup        // see sendSlowly
}

// receive reads requests and passes them on until the call ends. It returns the status with which
// that happens, and the pause until then.
func (c *call) receive(from messageReader, most int) (pause time.Duration, err error) {
	var in request
	on := c.connection()
	for first := true; ; first = false {
		if err := in.begin(from, c.header[:], most); err != nil {
			return c.unread(err)
		}
		if first && in.size > transport.SmallRequest {
			if err := in.readTo(from, transport.FirstBytes); err != nil {
				in.free()
				return c.unread(err)
			}
			if err := c.client.Begin(in.beginning(), in.size); err != nil {
				in.free()
				return 0, err
			}
		}
		if err := in.readTo(from, in.size); err != nil {
			in.free()
			return c.unread(err)
		}
		if !first && on != nil {
			on.MessageRead(in.size)
		}
		pause, err := c.client.Request(in.bytes())
		in.free()
		if err != nil {
			return pause, err
		}
		c.sleep(pause)
	}
}

// unread passes on why no further request can be read.
func (c *call) unread(err error) (pause time.Duration, reason error) {
	if r := c.reason.Load(); r != nil {
		err = *r
	}
	return c.client.NoMoreRequests(err)
}

// sleep waits until the pause is over or the call has ended.
func (c *call) sleep(pause time.Duration) {
	if pause <= 0 || c.Ended() {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Done(): // the client has disconnected, or the node stops
	}
}

// Send implements [transport.Call].
func (c *call) Send(m *transport.Message, unanswered int) (writable bool) {
	if unanswered >= inlineBudget {
		c.senders.Go(func() { c.sendSlowly(m) })
		return false
	}
	return c.write(m)
}

// sendSlowly sends m, which may block. It ends the call if the client does not make room in time.
func (c *call) sendSlowly(m *transport.Message) {
	deadline := time.AfterFunc(c.adapter.cfg.SendTimeout, func() { c.End(c.adapter.cfg.Unsent()) })
	sent := c.write(m)
	deadline.Stop()
	if sent {
		c.client.Writable()
	}
}

// write sends m, and ends the call if that fails. Usually the handler is about to get the reason
// itself, and then this one is not the first.
func (c *call) write(m *transport.Message) (sent bool) {
	var err error
	if c.gzip {
		to := grpc.ServerTransportStreamFromContext(c.grpc.Context())
		err = c.adapter.wireOf(reflect.TypeOf(to)).send(to, m)
	} else {
		err = c.grpc.SendMsg(m)
	}
	if err != nil {
		c.End(sendError(err))
	}
	return err == nil
}

// sendError returns the status with which a call ends after err of a send. If the connection was closed,
// a send may notice it before the read does, and both mean that the client, or the network, has ended the
// call.
func sendError(err error) error {
	if s, ok := status.FromError(err); !ok || s.Code() == codes.Unavailable {
		return status.Error(codes.Canceled, "the connection was closed")
	}
	return err
}

// End implements [transport.Call].
func (c *call) End(reason error) {
	if !c.reason.CompareAndSwap(nil, &reason) {
		return
	}
	st := status.New(codes.OK, "")
	if reason != nil {
		st = status.Convert(reason)
	}
	if to, err := transportStreamOf(c.grpc.Context()); err == nil {
		// An error means that the connection was closed, and the stream with it.
		_ = to.WriteStatus(st)
	}
}

// Ended implements [transport.Call].
func (c *call) Ended() bool { return c.reason.Load() != nil }

// Done implements [transport.Call].
func (c *call) Done() <-chan struct{} { return c.grpc.Context().Done() }

// Addr implements [transport.Call].
func (c *call) Addr() net.Addr {
	if p, ok := peer.FromContext(c.grpc.Context()); ok {
		return p.Addr
	}
	return nil
}

// addrOf returns the address of a client; empty if it is unknown.
func addrOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// connection returns the client's connection; nil if it is unknown.
func (c *call) connection() *conn.Conn {
	if a := c.Addr(); a != nil {
		return conn.Of(a)
	}
	return nil
}

// Identity implements [transport.Call].
func (c *call) Identity() authz.Client {
	p, _ := peer.FromContext(c.grpc.Context())
	return authz.ClientOf(p)
}

// Header implements [transport.Call].
func (c *call) Header(name string) []string {
	return metadata.ValueFromIncomingContext(c.grpc.Context(), name)
}

// HeaderSize implements [transport.Call].
func (c *call) HeaderSize() (n int) {
	const each = 32
	md, _ := metadata.FromIncomingContext(c.grpc.Context())
	for name, values := range md {
		for _, v := range values {
			n += len(name) + len(v) + each
		}
	}
	return n
}
