package fanout

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// cancelKey finds the cancel function of a stream's context.
type cancelKey struct{}

// tap gives every stream a context that can be cancelled from outside its
// handler. That is the one way to end a receive or a send that blocks without
// a second goroutine per stream.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if !strings.HasPrefix(info.FullMethodName, "/envoy.") {
		return ctx, nil
	}
	if s.draining.Load() {
		return nil, errDraining
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

func cancelOf(ctx context.Context) (context.CancelCauseFunc, error) {
	cancel, ok := ctx.Value(cancelKey{}).(context.CancelCauseFunc)
	if !ok {
		return nil, errors.New("the gRPC server was made without the fan-out's ServerOptions")
	}
	return cancel, nil
}

// Reasons to end a stream. All are gRPC statuses that say why.
var (
	errDraining     = status.Error(codes.Unavailable, "this node is draining: connect to another")
	errSendDeadline = status.Error(codes.DeadlineExceeded, "the client did not read a response within the send timeout")
	errNoRequest    = status.Error(codes.DeadlineExceeded, "no request came within the first-request timeout")
	errTooFarBehind = status.Error(codes.Unavailable, "the client is too far behind to be told what was removed: reconnect")
)

// endOf returns what the stream ends with: the cause with which we cancelled
// its context, if we did.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if _, ours := status.FromError(cause); ours {
			return cause
		}
	}
	return err
}
