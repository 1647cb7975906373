package floor

import (
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"xdsrelay/bench/drive"
	"xdsrelay/fanout"
	"xdsrelay/fanout/ready"
)

// received is a message that was received. The body is kept if look says so.
type received struct {
	look bool
	size int
	body []byte
}

// rawCodec passes messages on without looking inside.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("floor: cannot send %T, expected a message", v)
	}
	return m.buffers, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return fmt.Errorf("floor: cannot receive into %T, expected what a message is received into", v)
	}
	r.size = data.Len()
	if r.look {
		r.body = data.Materialize()
	}
	return nil
}

// grpcListening is a gRPC server of the aggregated service's method for the
// variant.
func (f *Floor) grpcListening() drive.Listening {
	options := append(fanout.TransportOptions(), grpc.ForceServerCodecV2(rawCodec{}), grpc.WaitForHandlers(true))
	if f.cfg.TLS != nil {
		options = append(options, grpc.Creds(unbuffered{credentials.NewTLS(f.cfg.TLS)}))
	}
	gs := grpc.NewServer(options...)
	method := "StreamAggregatedResources"
	if f.cfg.Delta {
		method = "DeltaAggregatedResources"
	}
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.discovery.v3.AggregatedDiscoveryService",
		Streams:     []grpc.StreamDesc{{StreamName: method, ServerStreams: true, ClientStreams: true, Handler: f.handle}},
	}, nil)
	return drive.GRPC(gs)
}

// unbuffered are credentials whose connections pin no read buffer while idle, as without TLS.
type unbuffered struct {
	credentials.TransportCredentials
}

func (u unbuffered) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := u.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return readyConn{c, ready.NewReader(c)}, info, nil
}

func (u unbuffered) Clone() credentials.TransportCredentials {
	return unbuffered{u.TransportCredentials.Clone()}
}

type readyConn struct {
	net.Conn
	ready.Reader
}

// handle receives and counts.
func (f *Floor) handle(_ any, stream grpc.ServerStream) error {
	f.counter.Opened()
	defer f.counter.Closed()
	p := &peer{to: stream}
	defer f.leave(p)
	r := received{look: true}
	for {
		if err := stream.RecvMsg(&r); err != nil {
			return err
		}
		look, err := f.heard(p, r.size, r.body, r.look)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		r = received{look: look}
	}
}
