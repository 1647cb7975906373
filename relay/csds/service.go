package csds

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout"
	"xdsrelay/fanout/authz"
	"xdsrelay/relay/cache"
)

// Config is where the service gets what it shows. The functions are required,
// and are called concurrently.
type Config struct {
	// Name is this node's.
	Name string
	// Clients returns the clients' streams.
	Clients func() []fanout.Client
	// Gate lets in who asks over gRPC, or refuses them; nil lets in everybody.
	Gate *authz.Gate
	// Others returns the other nodes of the tier, whose answers are a part of this
	// one's; nil for a service that tells of its own node only.
	Others func() []Other
	// Groups returns the groups for which the relay is a client of the origin.
	Groups func() []*cache.Group
}

// Service answers who has what, over gRPC and HTTP. All methods are safe for
// concurrent use.
type Service struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer
	cfg Config
}

// Own is the service for other nodes: it tells of this node alone, whoever asks.
func (s *Service) Own() *Service {
	return &Service{cfg: Config{Clients: s.cfg.Clients, Groups: s.cfg.Groups}}
}

// New makes a service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// Register adds the service to gs.
func (s *Service) Register(gs *grpc.Server) {
	statusv3.RegisterClientStatusDiscoveryServiceServer(gs, s)
}

// Bounds of one message, in bytes. Clients take 4 MiB by default.
const (
	streamed = 1 << 20
	fetched  = 4<<20 - 64<<10
)

// StreamClientStatus answers each request with as many responses as it takes,
// and at least one.
func (s *Service) StreamClientStatus(stream statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p := pages{limit: streamed, send: func(c []*statusv3.ClientConfig) error {
			return stream.Send(&statusv3.ClientStatusResponse{Config: c})
		}}
		if err := s.admit(stream.Context(), req); err != nil {
			return err
		}
		if err := s.answer(stream.Context(), req, "", &p); err != nil {
			return err
		}
	}
}

// admit decides whether whoever asks may: each request stands for itself. The Node in
// it may be missing, and is then an empty one to the authorization rules.
func (s *Service) admit(ctx context.Context, req *statusv3.ClientStatusRequest) error {
	p, _ := peer.FromContext(ctx)
	return s.cfg.Gate.Admit(s.cfg.Gate.Policy(), req.GetNode(), authz.ClientOf(p))
}

// FetchClientStatus answers in one response, or says that it would be too large.
func (s *Service) FetchClientStatus(ctx context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	if err := s.admit(ctx, req); err != nil {
		return nil, err
	}
	var rsp *statusv3.ClientStatusResponse
	p := pages{limit: fetched, send: func(c []*statusv3.ClientConfig) error {
		if rsp != nil {
			return status.Errorf(codes.ResourceExhausted, "the answer is larger than %d bytes: use StreamClientStatus, "+
				"name fewer clients by node_matchers, or set exclude_resource_contents", fetched)
		}
		rsp = &statusv3.ClientStatusResponse{Config: c}
		return nil
	}}
	if err := s.answer(ctx, req, "", &p); err != nil {
		return nil, err
	}
	return rsp, nil
}

// answer writes what is asked for, of all nodes or only one: first of this node, then
// of the others.
func (s *Service) answer(ctx context.Context, req *statusv3.ClientStatusRequest, only string, p *pages) error {
	match, err := newMatcher(req.GetNodeMatchers())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	var others []Other
	if s.cfg.Others != nil {
		others = s.cfg.Others()
	}
	if only != "" && only != s.cfg.Name {
		if others = slices.DeleteFunc(others, func(o Other) bool { return o.Name != only }); len(others) == 0 {
			return status.Errorf(codes.InvalidArgument, "no node of the tier is called %q", only)
		}
	} else if err := s.own(req, match, p); err != nil {
		return err
	}
	if only == "" || only != s.cfg.Name {
		if err := s.others(ctx, req, others, p); err != nil {
			return err
		}
	}
	return p.flush(true)
}

// own writes what is asked for of this node: key by key, first how the relay stands,
// and then its clients by their ids.
func (s *Service) own(req *statusv3.ClientStatusRequest, match *matcher, p *pages) error {
	clients, groups := make(map[string][]fanout.Client), make(map[string][]*cache.Group)
	for _, c := range s.cfg.Clients() {
		if match.client(c) {
			clients[c.Key()] = append(clients[c.Key()], c)
		}
	}
	for _, g := range s.cfg.Groups() {
		if match.node(g.Node) {
			groups[string(g.Key)] = append(groups[string(g.Key)], g)
		}
	}
	b := builder{pages: p, contents: !req.GetExcludeResourceContents()}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(groups)), maps.Keys(clients))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		slices.SortFunc(groups[key], func(a, b *cache.Group) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Node.GetId(), b.Node.GetId()))
		})
		for _, g := range groups[key] {
			if err := b.relay(g); err != nil {
				return err
			}
		}
		slices.SortStableFunc(clients[key], func(a, b fanout.Client) int { return cmp.Compare(a.ID(), b.ID()) })
		for _, c := range clients[key] {
			if err := b.client(c); err != nil {
				return err
			}
		}
		delete(clients, key) // lets go of those that are done
		b.shown = nil
	}
	return nil
}

// rank puts a key's own group before those of single clients.
func rank(g *cache.Group) int {
	if g.Private() {
		return 1
	}
	return 0
}
