package fanout

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/resource"
)

// MaxNodeParts bounds the messages in a Node, such as its extensions and metadata values: decoded,
// each takes hundreds of bytes, encoded as few as two. The Node of an Envoy has about a thousand.
const MaxNodeParts = 20_000

var nodeDescriptor = (*corev3.Node)(nil).ProtoReflect().Descriptor()

// FirstBytes is how much of a stream's first request is read before its client is authorized, in
// bytes. These bytes must include the beginning of the Node and all fields of it that the authorize
// rules read.
const FirstBytes = transport.FirstBytes

// authorizeEarly decides from b, the beginning of a first request, whether its client may send the
// rest: if authorization rules are in force, they must allow what has arrived of the Node, which is
// field number. The complete Node is authorized again later.
func (s *Server) authorizeEarly(c *caller, b []byte, size int, number protowire.Number) error {
	raw, nodeSize, err := resource.NodeIn(b, number)
	if err != nil {
		return malformed(err)
	}
	if err := s.checkNode(c, nodeSize); err != nil {
		return err
	}
	policy := s.cfg.Gate.Policy()
	switch {
	case policy.Open():
		return nil
	case raw == nil && size > FirstBytes:
		return status.Errorf(codes.InvalidArgument, "the first request does not begin with the node (expected within the first %d bytes), which authorization reads: send the node first", FirstBytes)
	}
	return s.authorizeNode(policy, raw, c.call.Identity())
}

// authorizeNode applies the authorization rules to the fields that they read of a Node, whose end
// may be missing. It decodes no other fields.
func (s *Server) authorizeNode(policy *authorize.Policy, raw []byte, by authz.Client) error {
	claim := resource.FieldsOf(raw, policy.Reads().Numbers()|nodeNameFields)
	node, err := decodeNode(claim)
	if err != nil {
		return err
	}
	if err := aggregation.Vet(node); err != nil {
		return err
	}
	return s.cfg.Gate.Admit(policy, node, by)
}

// decodeNode decodes a Node unless it has too many parts.
func decodeNode(raw []byte) (*corev3.Node, error) {
	if messagesIn(raw, nodeDescriptor, MaxNodeParts) > MaxNodeParts {
		return nil, status.Errorf(codes.ResourceExhausted, "the node in the first request has more than %d parts, expected fewer", MaxNodeParts)
	}
	node := &corev3.Node{}
	if err := readable.Unmarshal(raw, node); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "node in the first request: %v", err)
	}
	return node, nil
}

// readable decodes messages that are passed on to the control plane, which must be able to decode
// them, too: otherwise it would end the stream of all clients of the key.
var readable = proto.UnmarshalOptions{RecursionLimit: resource.MaxNesting}

// identify takes the client's encoded Node from the first request and computes its key (B1).
func (s *stream) identify(raw []byte) error {
	if s.tier != nil {
		return s.identifyPeer(raw)
	}
	if err := s.srv.checkNode(&s.caller, len(raw)); err != nil {
		return err
	}
	node, err := decodeNode(raw)
	if err != nil {
		return err
	}
	i := identityOf(raw)
	s.node, s.nodeID, s.cluster, s.fields = i.node, i.id, i.cluster, uint16(i.fields) //nolint:gosec // a Node has 12 fields
	set := s.srv.ruleSets.Load()
	res, err := s.srv.letIn(&s.caller, node, s.call.Identity(), i.fields)
	if err != nil {
		return err
	}
	if err := s.srv.useKey(&s.caller, res.Key); err != nil {
		return err
	}
	s.rule, s.sharesSecrets = res.Rule, res.ShareSecrets
	s.ruled.Store(set << formerBits)
	s.timed = s.takesTTLs(node.GetClientFeatures())
	gzip := s.acceptsGzip(node)
	g := s.srv.cfg.Cache.Join(res.Key, res.Node)
	if s.srv.cfg.Keyed != nil {
		s.srv.cfg.Keyed(g, res.Rule)
	}
	events := s.srv.eventsOf(s, res.Key)
	s.mu.Lock()
	s.group, s.gzip, s.journal = g, gzip, events
	s.connectedLocked(time.Now())
	s.seeLocked(true)
	s.disarmLocked()
	s.mu.Unlock()
	if s.srv.ruleSets.Load() != set {
		s.compareRules() // the recheck may have missed the stream
	}
	return nil
}

// malformed refuses a request that cannot be decoded.
func malformed(err error) error {
	if _, refused := status.FromError(err); refused {
		return err // already refused for another reason
	}
	return status.Errorf(codes.InvalidArgument, "the request is malformed: %v", err)
}

// typeOf returns the type of a request (A5).
func (s *stream) typeOf(url string) (*resource.Type, error) {
	switch {
	case s.only == nil && url == "":
		return nil, status.Error(codes.InvalidArgument, "type_url is missing: every request of an aggregated stream requires it")
	case s.only == nil:
		return s.ofVersion(resource.TypeOf(url))
	case url != "" && url != s.only.URL:
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, but this service serves %q", url, s.only.URL)
	}
	return s.only, nil
}

// ofVersion refuses types of the other version of the protocol (J2). Unknown types exist in version
// 3 only: version 2 gets no new ones.
func (s *stream) ofVersion(t *resource.Type) (*resource.Type, error) {
	switch {
	case s.v2 && !t.V2:
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, which is not a type of xDS v2, but this is a method of xDS v2", t.URL)
	case t.V2 && !s.v2:
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, a type of xDS v2, but this is a method of xDS v3", t.URL)
	}
	return t, nil
}
