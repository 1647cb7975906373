package tier

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/pause"
	"xdsrelay/upstream"
)

// Bounds of the time between two heartbeats.
const (
	beatOften  = 50 * time.Millisecond
	beatSeldom = time.Second
)

// beatsEach is how many heartbeats answer a request for them. More would cost less; but a node whose
// requests do not arrive at the other one notices it by the first request without an answer.
const beatsEach = 5

// streamLife is how long one stream of heartbeats is used: each new stream has to present the token
// of the tier again.
const streamLife = time.Minute

// watch watches the heartbeats of the node until ctx ends.
func (p *peer) watch(ctx context.Context) {
	timeout := p.owner.cfg.Timeout
	h := heartbeats{plane: p.plane, every: min(max(timeout/2, beatOften), beatSeldom)}
	defer func() { h.end() }()
	for due := time.Now(); ; {
		err := h.next(ctx, due.Add(timeout))
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if now.Before(due) {
			due = now
		}
		p.heard(err, due)
		due = now.Add(h.every)
	}
}

// heartbeats are those of one node, as another receives them. They belong to one goroutine.
type heartbeats struct {
	// Fixed after construction.
	plane *upstream.ControlPlane
	every time.Duration

	ctx    context.Context    // of the stream
	cancel context.CancelFunc // nil while there is no stream
	stream grpc.ClientStream  // nil until it is open
	opened time.Time          // when a stream was last opened
	left   int32              // how many heartbeats follow without a request
}

// end ends the stream.
func (h *heartbeats) end() {
	if h.cancel != nil {
		h.cancel()
	}
	h.cancel, h.stream = nil, nil
}

// next returns when the node has sent a heartbeat, or with an error: at a time at the latest. If a
// stream is left, the next heartbeat is received on it. It lasts until ctx ends.
func (h *heartbeats) next(ctx context.Context, until time.Time) error {
	if h.left == 0 && time.Since(h.opened) >= streamLife {
		h.end()
	}
	if h.cancel == nil {
		h.ctx, h.cancel = context.WithCancel(ctx)
	}
	late := time.AfterFunc(time.Until(until), h.cancel)
	used := h.stream != nil
	err := h.receive()
	if err != nil && used {
		err = h.receive() // the stream may have ended after a heartbeat
	}
	if status.Code(err) == codes.Unimplemented {
		// A node of before heartbeats. The first release can drop this.
		_, err = ask(h.ctx, h.plane, statusPath)
	}
	inTime := late.Stop()
	if err != nil && !inTime {
		err = status.Error(codes.DeadlineExceeded, "no heartbeat in time")
	}
	if h.stream == nil || !inTime {
		h.end()
	}
	return err
}

// receive receives a heartbeat. It opens the stream if it is not open, once between two heartbeats at
// most, and forgets it at an error.
func (h *heartbeats) receive() (err error) {
	if h.stream == nil {
		if time.Since(h.opened) < h.every && !pause.For(h.ctx, pause.Next(h.every)) {
			return h.ctx.Err()
		}
		h.opened, h.left = time.Now(), 0
		if h.stream, err = h.plane.Open(h.ctx, "/"+askService+"/"+beatMethod); err != nil {
			h.stream = nil
			return err
		}
	}
	if h.left == 0 {
		// The receive reports why a send failed.
		_ = h.stream.SendMsg(durationpb.New(h.every))
	}
	var left wrapperspb.Int32Value
	if err = h.stream.RecvMsg(&left); err != nil {
		h.stream = nil
		return err
	}
	h.left = left.GetValue()
	return nil
}

// serveHeartbeats sends heartbeats on a stream of another node until it ends: as many as beatsEach for each
// request, which has the time between them. Each has the number of those that follow without a
// request. The first one is sent at once, all others at moments that are those of all nodes, so that
// a node wakes up once for all.
func (t *Tier) serveHeartbeats(_ any, stream grpc.ServerStream) error {
	first := true
	for {
		var request durationpb.Duration
		if err := stream.RecvMsg(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		every := request.AsDuration()
		if every < beatOften || every > streamLife {
			return status.Errorf(codes.InvalidArgument, "heartbeats every %s, expected %s to %s", every, beatOften, streamLife)
		}
		for left := int32(beatsEach) - 1; left >= 0; left-- {
			if !first && !pause.For(stream.Context(), pause.Next(every)) {
				return stream.Context().Err()
			}
			first = false
			if err := stream.SendMsg(wrapperspb.Int32(left)); err != nil {
				return err
			}
		}
	}
}
