package aggregation

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// UserAgent is the user_agent_name of every upstream Node whose rule does not
// pass the clients' own.
const UserAgent = "xdsrelay"

// The ids of upstream Nodes that the relay makes. A control plane may distinguish
// clients by nothing but the id, so no client may spell the id of another key or
// identity.
const (
	// idPrefix precedes the key.
	idPrefix = "xdsrelay/"
	// idSeparator precedes an identity. No [Key] contains it.
	idSeparator = "~~"
	// shownPrefix precedes the id of a client that begins with idPrefix itself. No key
	// is empty, so nothing else begins with it.
	shownPrefix = idPrefix + idSeparator + "id="
)

// shownID is the id under which the control plane sees the id of a client.
func shownID(id string) string {
	if strings.HasPrefix(id, idPrefix) {
		return shownPrefix + id
	}
	return id
}

// copyPassed builds a Node that holds the given fields of src and nothing else.
// Messages are built anew and not cloned: unknown protobuf fields inside them
// would reach the control plane without being in the key.
func copyPassed(paths []path, src *corev3.Node) *corev3.Node {
	dst := &corev3.Node{}
	for _, p := range paths {
		switch p[0] {
		case "id":
			dst.Id = src.GetId()
		case "cluster":
			dst.Cluster = src.GetCluster()
		case "user_agent_name":
			dst.UserAgentName = src.GetUserAgentName()
		case "user_agent_version":
			if v, ok := src.GetUserAgentVersionType().(*corev3.Node_UserAgentVersion); ok {
				dst.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: v.UserAgentVersion}
			}
		case "user_agent_build_version":
			copyBuildVersion(dst, src.GetUserAgentBuildVersion().GetVersion())
		case "locality":
			copyLocality(dst, p[1], src.GetLocality())
		case "metadata":
			copyMetadata(dst, p[1:], src.GetMetadata())
		}
	}
	// What the relay says of a client no client may say itself.
	if delete(dst.GetMetadata().GetFields(), identityField); len(dst.GetMetadata().GetFields()) == 0 {
		dst.Metadata = nil
	}
	return dst
}

func copyBuildVersion(dst *corev3.Node, v *typev3.SemanticVersion) {
	if v == nil {
		return
	}
	dst.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
		Version: &typev3.SemanticVersion{MajorNumber: v.GetMajorNumber(), MinorNumber: v.GetMinorNumber(), Patch: v.GetPatch()},
	}}
}

// copyLocality leaves the message out while it is empty: absent and empty would
// otherwise be two Nodes for one key.
func copyLocality(dst *corev3.Node, field string, src *corev3.Locality) {
	set := func(value string, to func(*corev3.Locality)) {
		if value == "" {
			return
		}
		if dst.Locality == nil {
			dst.Locality = &corev3.Locality{}
		}
		to(dst.Locality)
	}
	switch field {
	case "region":
		set(src.GetRegion(), func(l *corev3.Locality) { l.Region = src.GetRegion() })
	case "zone":
		set(src.GetZone(), func(l *corev3.Locality) { l.Zone = src.GetZone() })
	case "sub_zone":
		set(src.GetSubZone(), func(l *corev3.Locality) { l.SubZone = src.GetSubZone() })
	}
}

// copyMetadata copies the value at names, with the structs that lead to it; a
// value that is not there leaves nothing behind, not even those structs.
func copyMetadata(dst *corev3.Node, names []string, src *structpb.Struct) {
	if len(names) == 0 {
		if len(src.GetFields()) > 0 {
			dst.Metadata = cloneStruct(src)
		}
		return
	}
	last := len(names) - 1
	for _, name := range names[:last] {
		src = src.GetFields()[name].GetStructValue()
	}
	value, ok := src.GetFields()[names[last]]
	if !ok {
		return
	}
	if dst.Metadata == nil {
		dst.Metadata = newStruct()
	}
	at := dst.Metadata
	for _, name := range names[:last] {
		next := at.GetFields()[name].GetStructValue()
		if next == nil {
			next = newStruct()
			at.Fields[name] = structpb.NewStructValue(next)
		}
		at = next
	}
	at.Fields[names[last]] = cloneValue(value)
}

func newStruct() *structpb.Struct { return &structpb.Struct{Fields: map[string]*structpb.Value{}} }

func cloneStruct(s *structpb.Struct) *structpb.Struct {
	out := newStruct()
	for name, v := range s.GetFields() {
		out.Fields[name] = cloneValue(v)
	}
	return out
}

func cloneValue(v *structpb.Value) *structpb.Value {
	switch k := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return structpb.NewBoolValue(k.BoolValue)
	case *structpb.Value_NumberValue:
		return structpb.NewNumberValue(k.NumberValue)
	case *structpb.Value_StringValue:
		return structpb.NewStringValue(k.StringValue)
	case *structpb.Value_ListValue:
		out := make([]*structpb.Value, 0, len(k.ListValue.GetValues()))
		for _, e := range k.ListValue.GetValues() {
			out = append(out, cloneValue(e))
		}
		return structpb.NewListValue(&structpb.ListValue{Values: out})
	case *structpb.Value_StructValue:
		return structpb.NewStructValue(cloneStruct(k.StructValue))
	}
	return structpb.NewNullValue()
}

// finish turns the passed fields into the group's upstream Node (K4).
func finish(n *corev3.Node, paths []path, key Key, relayVersion string, payload []string) *corev3.Node {
	if hasPath(paths, "id") || hasPath(paths, "id"+isKey) {
		n.Id = shownID(n.GetId())
	} else {
		n.Id = idPrefix + string(key)
	}
	if !hasPath(paths, "user_agent_name") {
		n.UserAgentName = UserAgent
	}
	if relayVersion != "" && !slices.ContainsFunc(paths, isAgentVersion) {
		n.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: relayVersion}
	}
	n.ClientFeatures = upstreamFeatures(payload)
	return n
}

// identityField is the metadata field that names the identity of a Node.
const identityField = "xdsrelay.identity"

// NodeOf returns the upstream Node of the clients of a group that have proved to be
// identity: a copy of the group's Node with the identity in the metadata, and in the id
// unless a client's id is shown there. An empty identity gives a copy.
func NodeOf(group *corev3.Node, identity string) *corev3.Node {
	n := proto.CloneOf(group)
	if identity == "" {
		return n
	}
	if strings.HasPrefix(n.GetId(), idPrefix) && !strings.HasPrefix(n.GetId(), shownPrefix) {
		n.Id += idSeparator + identity
	}
	if n.Metadata == nil {
		n.Metadata = newStruct()
	}
	n.Metadata.Fields[identityField] = structpb.NewStringValue(identity)
	return n
}

// NodeOfClient returns the upstream Node of one client of a group: that of its identity
// with the client's own id.
func NodeOfClient(group *corev3.Node, identity, id string) *corev3.Node {
	n := NodeOf(group, identity)
	n.Id = shownID(id)
	return n
}

func isAgentVersion(p path) bool {
	return p[0] == "user_agent_version" || p[0] == "user_agent_build_version"
}
