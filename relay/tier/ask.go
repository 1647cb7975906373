package tier

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/shard"
	"xdsrelay/upstream"
)

// A question of one node to another is a path with a query, as in a URL. The answer is JSON.
// askMethod carries one question, and beatMethod the heartbeats of a node.
const (
	askService = "xdsrelay.peer.v1.Peer"
	askMethod  = "Ask"
	beatMethod = "Heartbeats"

	// statusPath asks for the shard.Status of the node.
	statusPath = "status"
)

var errClosed = errors.New("the relay is shutting down")

// Handler answers a question with a value that is encoded as JSON. An error that is a gRPC status
// keeps its code.
type Handler func(ctx context.Context, query url.Values) (any, error)

// question is a question that this node answers.
type question struct {
	answer Handler
	params []string // see Handle
}

// handlers are all questions that this node answers.
type handlers struct {
	mu     sync.Mutex
	byPath map[string]question // guarded by mu
}

// Handle sets the handler of a path, without its query; it replaces an earlier one. The handler gets
// only the query parameters that are named here, so that [Tier.Questions] is complete. A name
// that ends in a colon includes all that begin with it.
func (t *Tier) Handle(path string, h Handler, params ...string) {
	t.handlers.mu.Lock()
	defer t.handlers.mu.Unlock()
	if t.handlers.byPath == nil {
		t.handlers.byPath = make(map[string]question)
	}
	t.handlers.byPath[path] = question{h, params}
}

// Questions returns the paths that have a handler, with the parameters that the handler gets.
func (t *Tier) Questions() map[string][]string {
	t.handlers.mu.Lock()
	defer t.handlers.mu.Unlock()
	all := make(map[string][]string, len(t.handlers.byPath))
	for path, q := range t.handlers.byPath {
		all[path] = q.params
	}
	return all
}

// takes reports whether the handler gets a parameter.
func (q question) takes(name string) bool {
	return slices.ContainsFunc(q.params, func(p string) bool {
		return name == p || strings.HasSuffix(p, ":") && strings.HasPrefix(name, p)
	})
}

// Ask asks a member of the tier, which may be this node; see [Peers.Ask].
func (t *Tier) Ask(ctx context.Context, m shard.Member, path string) ([]byte, error) {
	if m.Name == t.Self().Name {
		return t.answer(ctx, path)
	}
	if t.cfg.Peers == nil {
		return nil, errors.New("this node has no peers")
	}
	return t.cfg.Peers.Ask(ctx, m, path)
}

// answer calls the handler of a question.
func (t *Tier) answer(ctx context.Context, path string) ([]byte, error) {
	at, err := url.Parse(path)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "cannot read the question: %v", err)
	}
	t.handlers.mu.Lock()
	asked, ok := t.handlers.byPath[at.Path]
	t.handlers.mu.Unlock()
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "%q is no question that this node answers: it knows %q", at.Path, slices.Sorted(maps.Keys(t.Questions())))
	}
	query := at.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !asked.takes(name) })
	answer, err := asked.answer(ctx, query)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// Register adds the methods to the gRPC server of the peer port.
func (t *Tier) Register(gs *grpc.Server) {
	gs.RegisterService(&grpc.ServiceDesc{ServiceName: askService, Streams: []grpc.StreamDesc{
		{StreamName: askMethod, Handler: t.serveAsk, ServerStreams: true, ClientStreams: true},
		{StreamName: beatMethod, Handler: t.serveHeartbeats, ServerStreams: true, ClientStreams: true},
	}}, nil)
}

// serveAsk answers a question.
func (t *Tier) serveAsk(_ any, stream grpc.ServerStream) error {
	var question wrapperspb.StringValue
	if err := stream.RecvMsg(&question); err != nil {
		return err
	}
	answer, err := t.answer(stream.Context(), question.GetValue())
	if err != nil {
		return err
	}
	return stream.SendMsg(wrapperspb.Bytes(answer))
}

// ask sends one question over a connection and returns the answer.
func ask(ctx context.Context, plane *upstream.ControlPlane, path string) ([]byte, error) {
	var answer wrapperspb.BytesValue
	if err := plane.Call(ctx, "/"+askService+"/"+askMethod, wrapperspb.String(path), &answer); err != nil {
		return nil, err
	}
	return answer.GetValue(), nil
}
