package tier

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/shard"
	"xdsrelay/upstream"
)

// Nodes ask one another what operators want to know of a whole tier, by a unary
// method: a path with a query, like that of a URL, answered with JSON.
const (
	askService = "xdsrelay.peer.v1.Peer"
	askMethod  = "Ask"

	// statusPath is answered with the shard.Status of the node.
	statusPath = "status"
)

var errClosed = errors.New("the relay is shutting down")

// Handler answers questions of other nodes with what can be written as JSON. An error
// that is a gRPC status keeps its code.
type Handler func(ctx context.Context, query url.Values) (any, error)

// handlers are what a node answers.
type handlers struct {
	mu     sync.Mutex
	byPath map[string]Handler // guarded by mu
}

// Handle answers a path, without its query. A path that has a handler gets another.
func (t *Tier) Handle(path string, h Handler) {
	t.handlers.mu.Lock()
	defer t.handlers.mu.Unlock()
	if t.handlers.byPath == nil {
		t.handlers.byPath = make(map[string]Handler)
	}
	t.handlers.byPath[path] = h
}

// Ask asks a member of the tier, this node too; see [Peers.Ask].
func (t *Tier) Ask(ctx context.Context, m shard.Member, path string) ([]byte, error) {
	if m.Name == t.Self().Name {
		return t.answer(ctx, path)
	}
	if t.cfg.Peers == nil {
		return nil, errors.New("this node is on its own")
	}
	return t.cfg.Peers.Ask(ctx, m, path)
}

// answer answers a question.
func (t *Tier) answer(ctx context.Context, path string) ([]byte, error) {
	at, err := url.Parse(path)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the question cannot be read: %v", err)
	}
	t.handlers.mu.Lock()
	h := t.handlers.byPath[at.Path]
	known := slices.Sorted(maps.Keys(t.handlers.byPath))
	t.handlers.mu.Unlock()
	if h == nil {
		return nil, status.Errorf(codes.Unimplemented, "%q is no question that this node answers: it knows %q", at.Path, known)
	}
	answer, err := h(ctx, at.Query())
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// Register adds the method to the gRPC server of the peer port.
func (t *Tier) Register(gs *grpc.Server) {
	gs.RegisterService(&grpc.ServiceDesc{
		ServiceName: askService,
		Methods:     []grpc.MethodDesc{{MethodName: askMethod, Handler: t.serveAsk}},
	}, nil)
}

// serveAsk is a handler of gRPC.
//
//nolint:revive // the order of the parameters is gRPC's
func (t *Tier) serveAsk(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	var request wrapperspb.StringValue
	if err := decode(&request); err != nil {
		return nil, err
	}
	serve := func(ctx context.Context, r any) (any, error) {
		answer, err := t.answer(ctx, r.(*wrapperspb.StringValue).GetValue())
		if err != nil {
			return nil, err
		}
		return wrapperspb.Bytes(answer), nil
	}
	if intercept == nil {
		return serve(ctx, &request)
	}
	return intercept(ctx, &request, &grpc.UnaryServerInfo{FullMethod: "/" + askService + "/" + askMethod}, serve)
}

// ask asks over a connection.
func ask(ctx context.Context, plane *upstream.ControlPlane, path string) ([]byte, error) {
	var answer wrapperspb.BytesValue
	if err := plane.Call(ctx, "/"+askService+"/"+askMethod, wrapperspb.String(path), &answer); err != nil {
		return nil, err
	}
	return answer.GetValue(), nil
}
