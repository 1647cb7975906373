package fanout

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout/gate"
	"xdsrelay/relay/resource"
)

// MaxNodeParts bounds the messages that lie in a Node, such as its extensions and the
// values of its metadata: decoded, each takes some hundred bytes, and on the wire maybe
// two. An Envoy's have about a thousand.
const MaxNodeParts = 20_000

var nodeDescriptor = (*corev3.Node)(nil).ProtoReflect().Descriptor()

// identify takes the client's Node from the first request and finds its key
// (B1).
func (s *stream) identify(r *resource.Request, p *peer.Peer) error {
	if s.tier == nil {
		if err := s.srv.checkNode(&s.caller, len(r.Node)); err != nil {
			return err
		}
		if messagesIn(r.Node, nodeDescriptor, MaxNodeParts) > MaxNodeParts {
			return status.Errorf(codes.ResourceExhausted, "the node in the first request has more than %d parts, expected fewer", MaxNodeParts)
		}
	}
	var node corev3.Node
	if err := proto.Unmarshal(r.Node, &node); err != nil {
		return status.Errorf(codes.InvalidArgument, "node in the first request: %v", err)
	}
	if s.tier != nil {
		s.identifyPeer(&node, r)
		return nil
	}
	i := identityOf(r.Node)
	s.node, s.nodeID, s.cluster, s.fields = i.node, i.id, i.cluster, uint16(i.fields) //nolint:gosec // a Node has 12 fields
	res, err := s.srv.letIn(&s.caller, &node, gate.ClientOf(p), i.fields)
	if err != nil {
		return err
	}
	if err := s.srv.useKey(&s.caller, res.Key); err != nil {
		return err
	}
	s.rule, s.sharesSecrets = res.Rule, res.ShareSecrets
	s.timed = s.takesTTLs(node.GetClientFeatures())
	s.wire = s.wireFor(&node)
	g := s.srv.cfg.Cache.Join(res.Key, res.Node)
	s.mu.Lock()
	s.group = g
	s.disarmLocked()
	s.mu.Unlock()
	return nil
}

// malformed refuses a request that cannot be read.
func malformed(err error) error {
	return status.Errorf(codes.InvalidArgument, "the request is malformed: %v", err)
}

// typeOf finds out what a request is about (A5).
func (s *stream) typeOf(url string) (*resource.Type, error) {
	switch {
	case s.only == nil && url == "":
		return nil, status.Error(codes.InvalidArgument, "type_url is missing: an aggregated stream needs it in every request")
	case s.only == nil:
		return s.ofVersion(resource.TypeOf(url))
	case url != "" && url != s.only.URL:
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, but this service serves %q", url, s.only.URL)
	}
	return s.only, nil
}

// ofVersion refuses types of the other version of the protocol (J2). Unknown
// types are for version 3 only: version 2 gets no new ones.
func (s *stream) ofVersion(t *resource.Type) (*resource.Type, error) {
	switch {
	case s.v2 && !t.V2:
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, which is no type of version 2, but this is a method of version 2", t.URL)
	case t.V2 && !s.v2:
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, a type of version 2, but this is a method of version 3", t.URL)
	}
	return t, nil
}
