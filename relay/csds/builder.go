package csds

import (
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// builder writes configs.
type builder struct {
	pages    *pages
	contents bool
	redactor redact.Redactor
	shown    map[*resource.Resource]*anypb.Any // what may be shown, since clients of a key have the same
	size     int                               // of shown, in bytes
}

// clientStates are how a client stands, as seen by its server.
var clientStates = map[fanout.State]statusv3.ConfigStatus{
	fanout.Synced:  statusv3.ConfigStatus_SYNCED,
	fanout.Stale:   statusv3.ConfigStatus_STALE,
	fanout.Nacked:  statusv3.ConfigStatus_ERROR,
	fanout.NotSent: statusv3.ConfigStatus_NOT_SENT,
}

// client writes how a client stands.
func (b *builder) client(c fanout.Client) error {
	node := redact.Node(c.Node())
	if r := c.Rollout(); r != nil {
		noteRollout(node, r)
	}
	b.pages.begin(node, c.Key())
	for r := range c.Resources {
		g := &statusv3.ClientConfig_GenericXdsConfig{
			TypeUrl: r.Type.URL, Name: r.Name, VersionInfo: r.Version, ConfigStatus: clientStates[r.State],
			LastUpdated: timeOf(r.Changed), XdsConfig: b.content(r.Type, r.Resource, r.Private),
		}
		if r.Nack != nil {
			g.ErrorState = &adminv3.UpdateFailureState{
				Details: r.Nack.Message, LastUpdateAttempt: timeOf(r.Nack.At), VersionInfo: r.Nack.Version,
			}
		}
		if err := b.pages.add(g); err != nil {
			return err
		}
	}
	return nil
}

// rolloutKey is the metadata of a client with a part in a rollout.
const rolloutKey = "xdsrelay.rollout"

// noteRollout adds the part of a client in a rollout to its metadata.
func noteRollout(node *corev3.Node, r *fanout.ClientRollout) {
	if node.GetMetadata().GetFields() == nil {
		node.Metadata = &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	}
	node.GetMetadata().GetFields()[rolloutKey] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"revision": structpb.NewStringValue(r.Revision), "arm": structpb.NewStringValue(r.Arm),
	}})
}

// relayStates are how the relay stands, as a client.
var relayStates = map[cache.Standing]adminv3.ClientResourceStatus{
	cache.Requested:   adminv3.ClientResourceStatus_REQUESTED,
	cache.Unreachable: adminv3.ClientResourceStatus_TIMEOUT,
	cache.Absent:      adminv3.ClientResourceStatus_DOES_NOT_EXIST,
	cache.Accepted:    adminv3.ClientResourceStatus_ACKED,
	cache.Rejected:    adminv3.ClientResourceStatus_NACKED,
	cache.Failed:      adminv3.ClientResourceStatus_RECEIVED_ERROR,
}

// relay writes how the relay stands with what it asks for in the name of a key.
func (b *builder) relay(group *cache.Group) error {
	b.pages.begin(redact.Node(group.Node), string(group.Key))
	for _, t := range group.Tables() {
		for _, i := range t.NameInfos() {
			g := &statusv3.ClientConfig_GenericXdsConfig{
				TypeUrl: t.Type.URL, Name: i.Name, VersionInfo: i.Version, ClientStatus: relayStates[i.Standing],
				LastUpdated: timeOf(i.Changed), XdsConfig: b.content(t.Type, i.Resource, group.Private()),
			}
			if p := i.Problem; p != nil {
				g.ErrorState = &adminv3.UpdateFailureState{Details: p.Message, LastUpdateAttempt: timeOf(p.At), VersionInfo: p.Version}
			}
			if err := b.pages.add(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxContent is the largest resource that is shown, in bytes: a message has to
// hold it, and cannot be divided further.
const maxContent = 3 << 20

// maxShown bounds what is remembered of what may be shown, in bytes.
const maxShown = 16 << 20

// content returns what may be shown of a resource, nil for nothing.
func (b *builder) content(t *resource.Type, r *resource.Resource, private bool) *anypb.Any {
	if !b.contents || private || r == nil || len(r.Body) == 0 || len(r.Body) > maxContent || r.DoNotCache || resource.HoldsSecrets(t.URL) {
		return nil
	}
	if body, known := b.shown[r]; known {
		return body
	}
	body := &anypb.Any{}
	if proto.Unmarshal(r.Body, body) != nil || resource.HoldsSecrets(body.GetTypeUrl()) {
		return nil
	}
	b.redactor.Any(body)
	if b.size += len(body.GetValue()); b.shown == nil || b.size > maxShown {
		b.shown, b.size = make(map[*resource.Resource]*anypb.Any), len(body.GetValue())
	}
	b.shown[r] = body
	return body
}

func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
