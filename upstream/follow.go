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

// A follower requests a key from its owner like from a control plane. Two nodes exchange more than
// the protocol has (see [resource.PeerMark]): the key, when an answer is complete, and the version
// under which the control plane sent the present content. The owner decides instead of this node: a
// name that it does not have does not exist, a resource that it removes is removed, and clients on
// every node are sent its versions (K11).

// Following is how a key is followed.
type Following struct {
	// Leg names the upstream stream of the key, as returned by [cache.OriginStream.String].
	Leg string
	// State is called with nil when the stream has been accepted, and with an error when there is
	// none, each time that this changes. It must not block.
	State func(err error)
}

// Follow keeps f synchronized with the owner of its key until ctx ends. [ControlPlaneConfig.Peer]
// must be set.
func (c *ControlPlane) Follow(ctx context.Context, f *cache.Feed, how Following) {
	c.keys.Add(1)
	defer c.keys.Add(-1)
	r := newRunner(c, f)
	r.following = &how
	ctx = metadata.AppendToOutgoingContext(ctx, resource.PeerLegHeader, how.Leg)
	if rule := f.Group().Rule(); rule != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, resource.PeerRuleHeader, rule)
	}
	r.run(c.withKey(ctx, string(f.Key())))
}

// withKey adds headers for a stream to another node: the key and the name of this node.
func (c *ControlPlane) withKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, resource.PeerKeyHeader, key, resource.PeerNodeHeader, c.cfg.Peer)
}

// Call makes a unary call over the connection to the best server. It fails at once if there is no
// connection and none can be made.
func (c *ControlPlane) Call(ctx context.Context, method string, request, response proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.servers[0].channel.NewStream(ctx, &grpc.StreamDesc{}, method)
	if err != nil {
		return err
	}
	// If sending fails, receiving returns the reason.
	_ = stream.SendMsg(request)
	_ = stream.CloseSend()
	return stream.RecvMsg(response)
}

// Open opens a bidirectional stream over the same connection as [ControlPlane.Call], and fails at
// once under the same conditions. It lasts until ctx ends or one of the two sides ends it.
func (c *ControlPlane) Open(ctx context.Context, method string) (grpc.ClientStream, error) {
	return c.servers[0].channel.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
}

// Stream makes a call that is answered by a stream of messages, over the same connection as
// [ControlPlane.Call]. It lasts until ctx ends or all messages have been received.
func (c *ControlPlane) Stream(ctx context.Context, method string, request proto.Message) (grpc.ClientStream, error) {
	stream, err := c.servers[0].channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	// If sending fails, receiving returns the reason.
	_ = stream.SendMsg(request)
	_ = stream.CloseSend()
	return stream, nil
}

// Reach returns whether the control plane can be reached. ready is true if there is a connection to
// one of its servers. wanted is true if there should be one: some key is active, or attempts to
// connect with all servers have failed.
func (c *ControlPlane) Reach() (wanted, ready bool) {
	failed := true
	for _, s := range c.servers {
		ready = ready || s.reachable()
		failed = failed && s.journal.isUnreachable()
	}
	return failed || c.keys.Load() > 0, ready
}

// Problems describes the servers that cannot be reached: since when and why, without secrets, and
// when the next attempt is.
func (c *ControlPlane) Problems() (all []string) {
	for _, s := range c.servers {
		if text := s.journal.problem(); text != "" {
			all = append(all, s.address+": "+text+s.nextAttempt())
		}
	}
	return all
}

// AwaitReady connects with the best server that can be reached, even if no key wants anything. It
// returns when there is a connection or ctx ends.
func (c *ControlPlane) AwaitReady(ctx context.Context) error {
	return nearest{c.servers}.waitReady(ctx)
}

// applyOwnerMark adds to u what the mark of the owner says about rsp. A response that completes the
// answer may have no resources; one that does not says nothing about names that it leaves out
// (K13).
func (r *runner) applyOwnerMark(u *cache.Update, a *asked, rsp *resource.Response) {
	u.Mirror = &cache.Mirror{Versions: rsp.Mark.Versions, Kept: rsp.Mark.Kept, Errored: rsp.Mark.Errored}
	u.System = rsp.Mark.System
	if rsp.Mark.Edits == a.edits {
		u.Kind, u.Version = cache.Answer, rsp.Version
	} else {
		u.Kind = cache.Partial
	}
	if rsp.Mark.Server != "" {
		r.feed.SetServer(rsp.Mark.Server)
	}
	if rsp.Mark.Cut {
		if age := rsp.Mark.Age; age > 0 {
			u.Mirror.AsOf = u.Received.Add(-age)
		}
		r.feed.Down(errCut)
	} else {
		r.feed.Up()
	}
}

// shareErrors sends the owner of a key, after each of its responses, the names of errors that
// clients of this node may have seen and that were not sent on this stream: the owner may have
// restarted, or this node sent the error to its clients.
func (r *runner) shareErrors(s *session, a *asked) {
	if r.following == nil {
		return
	}
	for {
		errored := r.feed.Errored(a.Type, &a.errored)
		if len(errored.Names) == 0 {
			return
		}
		s.send(a.Type, message{errored: errored}.delta(a, s.takeNode()))
	}
}

// errCut is why a followed key has no stream to the control plane.
var errCut = errors.New("the node that owns the key cannot reach the control plane")
