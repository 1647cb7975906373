package fanout

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
)

// maxOther bounds a request of another service, in bytes. Requests of health, reflection and client
// status are names, and a stream of them keeps its request until it ends.
const maxOther = 64 << 10

// CountOthers counts the streams of other services, such as health watches, as streams of their
// client, and bounds their requests. It admits them while the node is overloaded: probes must learn
// the state of the node then, too.
func (s *Server) CountOthers(service any, gs grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if service == nil {
		return handle(service, gs) // a service of this package
	}
	return s.countOther(service, gs, handle)
}

// countOther is not part of CountOthers, so that its variables do not take stack of the streams of
// this package, which wait below it: a few hundred bytes there decide between a stack of 8 and one
// of 16 KiB.
//
//go:noinline
func (s *Server) countOther(service any, gs grpc.ServerStream, handle grpc.StreamHandler) error {
	var source limit.Source
	identity := ""
	if p, ok := peer.FromContext(gs.Context()); ok {
		source = limit.SourceOf(p.Addr)
		claim := aggregation.PeerFrom(p.AuthInfo, p.Addr)
		identity = claim.Identity()
	}
	reservation, err := s.cfg.Limits.Book(source, identity)
	if err != nil {
		return err
	}
	defer s.cfg.Limits.Leave(reservation, "")
	return handle(service, boundedStream{gs})
}

// boundedStream refuses requests over maxOther.
type boundedStream struct{ grpc.ServerStream }

// RecvMsg implements [grpc.ServerStream].
func (b boundedStream) RecvMsg(m any) error {
	if err := b.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if p, ok := m.(proto.Message); ok {
		if n := proto.Size(p); n > maxOther {
			return status.Errorf(codes.ResourceExhausted, "the request has %d bytes, expected at most %d", n, maxOther)
		}
	}
	return nil
}
