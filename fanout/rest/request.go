package rest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout"
	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// wildcardName is the name for all resources of a type.
const wildcardName = "*"

// request is the content of one poll.
type request struct {
	group    aggregation.Result
	version  string   // that the client has; empty for none
	names    []string // sorted, each once
	wildcard bool
	// ownSecrets means that secrets are for the client's identity, not for its key.
	ownSecrets bool
	// The client, and what status pages show of it: its Node as kept, the cluster in the Node, and
	// why it rejects the last answer.
	clientID      clientID
	node, cluster string
	fields        uint64         // of the Node, that are in node
	why           *fanout.Reason // nil unless it rejects
}

// serve answers a request within the limits.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, t *resource.Type) *answer {
	by := s.clientOf(r)
	if err := s.claim(r, by); err != nil {
		w.Header().Set("Connection", "close") // otherwise the connection would stay open
		return refusal(err)
	}
	reservation, err := s.cfg.Limits.Enter(limit.SourceAt(by.Address), by.Identity())
	if err != nil {
		return refusal(err)
	}
	key := "" // until a key is booked
	defer func() { s.cfg.Limits.Leave(reservation, key) }()
	body, problem := s.read(w, r, by)
	if problem != nil {
		return problem
	}
	q, err := s.decode(r, by, t, body)
	if err == nil {
		err = s.cfg.Limits.Use(reservation, by.Address, string(q.group.Key), func(most int) bool { return s.cfg.Cache.HasRoom(q.group.Key, most) })
	}
	if err != nil {
		s.cfg.Logger.LogAttrs(context.Background(), slog.LevelDebug, "poll refused", slog.String("peer", r.RemoteAddr), slog.String("reason", err.Error()))
		return refusal(err)
	}
	key = string(q.group.Key)
	return s.poll(r.Context(), t, q)
}

// maxOtherValues bounds the JSON values in each field of a poll other than the Node and the list of
// names.
const maxOtherValues = 1000

// checkValues bounds the JSON values in each field before any is decoded: a value of two bytes of
// text may take hundreds of bytes once decoded.
func (s *Server) checkValues(body []byte) error {
	if most := s.cfg.MaxNames + fanout.MaxNodeParts; valuesIn(body) > most {
		return status.Errorf(codes.ResourceExhausted, "the body has more than %d values, expected fewer", most)
	}
	return members(body, func(m member) error {
		most := maxOtherValues
		switch {
		case m.is("node"):
			most = fanout.MaxNodeParts
		case m.is("resource_names", "resourceNames"):
			return nil // counted above
		}
		if valuesIn(m.value) > most {
			return status.Errorf(codes.ResourceExhausted, "%.40q has more than %d values, expected fewer", m.name, most)
		}
		return nil
	})
}

// authorizeEarly decides from the beginning of a long poll whether the client may send the rest:
// where authorization rules are in force, the beginning must contain the Node, and the rules must
// allow it. The complete poll is authorized again.
func (s *Server) authorizeEarly(beginning []byte, by authz.Client) error {
	policy := s.cfg.Gate.Policy()
	if policy.Open() {
		return nil
	}
	var node *corev3.Node
	errFound := errors.New("found")
	err := members(beginning, func(m member) error {
		if !m.is("node") || !m.whole {
			return nil
		}
		if valuesIn(m.value) > fanout.MaxNodeParts {
			return status.Errorf(codes.ResourceExhausted, "the node has more than %d values, expected fewer", fanout.MaxNodeParts)
		}
		node = &corev3.Node{}
		if err := fromJSON.Unmarshal(m.value, node); err != nil {
			return status.Error(codes.InvalidArgument, "the node is not one in JSON: "+placed(err))
		}
		return errFound
	})
	switch {
	case node == nil && err == nil:
		return status.Errorf(codes.InvalidArgument, "the node does not end within the first %d bytes of the body, which authorization reads: send the node first", fanout.FirstBytes)
	case !errors.Is(err, errFound):
		return err
	}
	if err := aggregation.Vet(node); err != nil {
		return err
	}
	return s.cfg.Gate.Admit(policy, node, by)
}

// decode reads a request. Its errors are gRPC statuses.
func (s *Server) decode(r *http.Request, by authz.Client, t *resource.Type, body []byte) (*request, error) {
	if err := s.checkValues(body); err != nil {
		return nil, err
	}
	m, err := parse(body)
	if err != nil {
		return nil, err
	}
	switch {
	case m.GetTypeUrl() != "" && m.GetTypeUrl() != t.URL: // H3
		return nil, status.Errorf(codes.InvalidArgument, "type_url is %q, but this path serves %q", m.GetTypeUrl(), t.URL)
	case m.GetNode() == nil: // H3
		return nil, status.Error(codes.InvalidArgument, "node is missing: every poll requires it")
	case len(m.GetResourceLocators()) > 0: // G9
		return nil, status.Error(codes.InvalidArgument, "resource_locators are not supported: ask for resource_names")
	case len(m.GetResourceNames()) > s.cfg.MaxNames:
		return nil, s.cfg.Limits.Refuse(limit.Names, r.RemoteAddr, len(m.GetResourceNames()), s.cfg.MaxNames, "names in one poll")
	}
	if err := s.checkSizes(m, r.RemoteAddr); err != nil {
		return nil, err
	}
	group, err := s.letIn(m.GetNode(), by)
	if err != nil {
		return nil, err
	}
	q := &request{
		group: group, ownSecrets: by.Authenticated && !group.ShareSecrets, version: m.GetVersionInfo(), names: m.GetResourceNames(),
		clientID: clientID{id: m.GetNode().GetId(), key: group.Key, identity: by.Identity(), host: hostOf(by.Address)},
		cluster:  m.GetNode().GetCluster(),
	}
	if e := m.GetErrorDetail(); e != nil {
		q.why = fanout.NewReason(e.GetCode(), e.GetMessage())
	}
	if raw, err := proto.Marshal(m.GetNode()); err == nil { // it was just decoded
		q.node, q.fields = fanout.KeepNode(raw)
	}
	slices.Sort(q.names)
	q.names = slices.Compact(q.names)
	if len(q.names) == 0 {
		q.wildcard = t.Wildcard // H6
	}
	q.names = resource.WithoutGlobs(q.names) // D8
	if at, found := slices.BinarySearch(q.names, wildcardName); found {
		q.wildcard, q.names = true, slices.Delete(q.names, at, at+1)
	}
	return q, nil
}

// checkSizes bounds the Node of a poll and its names.
func (s *Server) checkSizes(m *discoveryv3.DiscoveryRequest, who string) error {
	v := s.cfg.Limits.Values()
	if n := proto.Size(m.GetNode()); v.NodeSize > 0 && n > v.NodeSize {
		return s.cfg.Limits.Refuse(limit.NodeSize, who, n, v.NodeSize, "bytes of a node")
	}
	bytes := 0
	for _, name := range m.GetResourceNames() {
		if err := fanout.CheckName(len(name)); err != nil {
			return err
		}
		bytes += len(name)
	}
	if v.NameSize > 0 && bytes > v.NameSize {
		return s.cfg.Limits.Refuse(limit.NameSize, who, bytes, v.NameSize, "bytes of names in one poll")
	}
	return nil
}

// letIn authorizes a client that claims to be node, and computes its key.
func (s *Server) letIn(node *corev3.Node, by authz.Client) (aggregation.Result, error) {
	if err := aggregation.Vet(node); err != nil {
		return aggregation.Result{}, err
	}
	if err := s.cfg.Gate.Admit(s.cfg.Gate.Policy(), node, by); err != nil {
		return aggregation.Result{}, err
	}
	return s.cfg.Rules().Resolve(node, by.Peer)
}

// clientOf returns what the connection proves of the client.
func (s *Server) clientOf(r *http.Request) authz.Client {
	var p peer.Peer
	if r.TLS != nil {
		c := &aggregation.Connection{TLS: &credentials.TLSInfo{State: *r.TLS}}
		if s.cfg.StillTrusted != nil {
			c.Recheck = func() error { return s.cfg.StillTrusted(r) }
		}
		p.AuthInfo = c
	}
	by := authz.ClientOf(&p)
	by.Address, by.Listener = r.RemoteAddr, s.cfg.Listener
	return by
}

// hostOf returns an address without its port, which changes with each connection.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// place matches the position that the protobuf library puts in front of an error.
var place = regexp.MustCompile(`^proto:[\s\x{a0}]*(?:syntax error )?(?:\(line (\d+):(\d+)\):)?[\s\x{a0}]*`)

// valuesIn estimates the number of JSON values in a text: each is in a list or an object, or
// follows a comma. A value of two bytes of text may take hundreds of bytes once decoded.
func valuesIn(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// fromJSON decodes requests. One level of JSON objects becomes up to three levels of messages in
// the Node, which the control plane must be able to decode.
var fromJSON = protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: resource.MaxNesting / 3}

// parse decodes a DiscoveryRequest from proto3 JSON. Fields may have either of their names, and
// unknown fields are ignored (H2).
func parse(body []byte) (*discoveryv3.DiscoveryRequest, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the body is empty, expected a DiscoveryRequest in JSON")
	}
	var m discoveryv3.DiscoveryRequest
	err := fromJSON.Unmarshal(body, &m)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "the body is not a DiscoveryRequest in JSON: "+placed(err))
	}
	return &m, nil
}

// placed returns the text of an error of the protobuf library with the position in our form. It
// relies on nothing else in the text, which is not stable.
func placed(err error) string {
	text := err.Error()
	at := place.FindStringSubmatch(text)
	if at == nil {
		return text
	}
	text = text[len(at[0]):]
	if at[1] != "" {
		text = "line " + at[1] + ", column " + at[2] + ": " + text
	}
	return text
}
