package upstream

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Another node of the tier that owns a key is asked like a control plane, with what
// two nodes can tell each other beyond the protocol (see [resource.PeerMark]): which
// key it is about, when an answer is complete, under which version the origin sent
// what is there. It judges in place of this node: what it does not have does not
// exist, what it removes is gone, and the versions that it names are those that
// clients are told, on every node (K11).

// Following is how a key is followed.
type Following struct {
	// Leg names the leg of the key, as [cache.Leg.String] has it.
	Leg string
	// State is told that the stream has been accepted (nil), or why there is none,
	// each time that this changes, on a goroutine that must not be held up.
	State func(err error)
}

// Follow keeps f in step with the owner of its key until ctx ends.
// [ControlPlaneConfig.Peer] has to be set.
func (c *ControlPlane) Follow(ctx context.Context, f *cache.Feed, how Following) {
	c.keys.Add(1)
	defer c.keys.Add(-1)
	r := newRunner(c, f)
	r.following = &how
	r.run(c.withKey(metadata.AppendToOutgoingContext(ctx, resource.PeerLegHeader, how.Leg), string(f.Key())))
}

// withKey adds what a stream to another node is about.
func (c *ControlPlane) withKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, resource.PeerKeyHeader, key, resource.PeerNodeHeader, c.cfg.Peer)
}

// Call makes a unary call over the connection to the best server, and fails at once
// where there is none and none can be made.
func (c *ControlPlane) Call(ctx context.Context, method string, request, response proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.servers[0].channel.NewStream(ctx, &grpc.StreamDesc{}, method)
	if err != nil {
		return err
	}
	// What fails to be sent, the receive reports.
	_ = stream.SendMsg(request)
	_ = stream.CloseSend()
	return stream.RecvMsg(response)
}

// Open opens a stream of messages in both directions over the same connection as
// [ControlPlane.Call], and fails at once where that does. It lasts until ctx ends or one of
// the two sides has ended it.
func (c *ControlPlane) Open(ctx context.Context, method string) (grpc.ClientStream, error) {
	return c.servers[0].channel.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
}

// Stream makes a call that is answered by a stream of messages, as [ControlPlane.Call]
// makes one. It lasts until ctx ends or it has been read to its end.
func (c *ControlPlane) Stream(ctx context.Context, method string, request proto.Message) (grpc.ClientStream, error) {
	stream, err := c.servers[0].channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	// What fails to be sent, the receive reports.
	_ = stream.SendMsg(request)
	_ = stream.CloseSend()
	return stream, nil
}

// Reach returns whether the control plane can be reached: ready says that there is a
// connection to one of its servers, and wanted that there should be one: some key wants
// something of it, or attempts to connect with all servers have failed.
func (c *ControlPlane) Reach() (wanted, ready bool) {
	failed := true
	for _, s := range c.servers {
		ready = ready || s.reachable()
		failed = failed && s.journal.isUnreachable()
	}
	return failed || c.keys.Load() > 0, ready
}

// Problems says which servers cannot be reached, since when and why, without secrets, and
// when they are tried next.
func (c *ControlPlane) Problems() (all []string) {
	for _, s := range c.servers {
		if text := s.journal.problem(); text != "" {
			all = append(all, s.address+": "+text+s.nextAttempt())
		}
	}
	return all
}

// AwaitReady tries to connect with the best server that can be reached, although no
// key may want it, until there is a connection or ctx ends.
func (c *ControlPlane) AwaitReady(ctx context.Context) error {
	return nearest{c.servers}.waitReady(ctx)
}

// mirror makes u what the owner of the key means by rsp. An answer to all that it was
// asked may bring nothing; what is none says nothing of what it leaves out (K13).
func (r *runner) mirror(u *cache.Update, a *asked, rsp *resource.Response) {
	u.Mirror, u.System, u.Errored = true, rsp.Mark.System, rsp.Mark.Errored
	u.Partial = rsp.Mark.Edits != a.edits
	if !u.Partial {
		u.Version = rsp.Version
	}
	if rsp.Mark.Server != "" {
		r.feed.SetServer(rsp.Mark.Server)
	}
	if rsp.Mark.Cut {
		if age := rsp.Mark.Age; age > 0 {
			u.AsOf = u.Received.Add(-age)
		}
		r.feed.Down(errCut)
	} else {
		r.feed.Up()
	}
}

// shareErrors sends the owner of a key, after each of its responses, the names of which
// clients of this node may remember an error and that it was not sent on this stream: it may
// have restarted, or they were sent the error by this node.
func (r *runner) shareErrors(s *session, a *asked) {
	if r.following == nil {
		return
	}
	for {
		errored := r.feed.Errored(a.typ, &a.errored)
		if len(errored.Names) == 0 {
			return
		}
		s.send(a.typ, message{errored: errored}.delta(a, s.takeNode()))
	}
}

// errCut is why a key that is followed has no stream to the origin.
var errCut = errors.New("the node that owns the key cannot reach the origin")
