package resource

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Message is a response to encode, without its nonce. The nonce differs per client and may follow
// anywhere: protobuf fields have no fixed order.
type Message struct {
	// Type is the type of the response.
	Type *Type
	// Version is version_info (SotW) or system_version_info (delta, where it is informational only:
	// D7).
	Version string
	// ControlPlane is control_plane.identifier; empty for none.
	ControlPlane string
	// Resources are written in this order. On SotW, those without a body have no form and are left
	// out.
	Resources []*Resource
	// Heartbeats are resources that the client has and whose TTL is renewed: only their names,
	// versions and lifetimes are written (F6; delta only).
	Heartbeats []*Resource
	// Lifetimes are the remaining TTLs of resources and heartbeats (F3). Resources that are not
	// listed are written without one; nil is for clients that do not support TTLs (F1). On SotW a
	// resource with a lifetime is written in a wrapper (F2).
	Lifetimes map[*Resource]time.Duration
	// Removed are the names in removed_resources (delta only).
	Removed []string
	// RemovedNames are encoded entries of removed_resource_names (delta only).
	RemovedNames [][]byte
	// Errors are encoded entries of resource_errors.
	Errors [][]byte
	// Extra holds encoded fields that are appended unchanged (delta only).
	Extra []byte
}

// AppendDelta appends the fields of a DeltaDiscoveryResponse to b.
func AppendDelta(b []byte, m *Message) []byte {
	if m.Type.V2 {
		m = m.inV2()
		m.ControlPlane = ""
	}
	b = appendString(b, rspVersion, m.Version)
	b = appendString(b, rspTypeURL, m.Type.URL)
	b = appendControlPlane(b, deltaControlPlane, m.ControlPlane)
	for _, r := range m.Resources {
		b = protowire.AppendVarint(b, rspResources)
		b = appendEnvelope(b, envelope{name: r.Name, version: r.Version, body: r.Body, extra: r.Extra, ttl: m.Lifetimes[r]})
	}
	for _, r := range m.Heartbeats {
		b = protowire.AppendVarint(b, rspResources)
		b = appendEnvelope(b, envelope{name: r.Name, version: r.Version, ttl: m.Lifetimes[r]})
	}
	for _, name := range m.Removed {
		b = protowire.AppendVarint(b, deltaRemoved)
		b = protowire.AppendString(b, name)
	}
	b = appendMessages(b, deltaRemovedName, m.RemovedNames)
	b = appendMessages(b, deltaErrors, m.Errors)
	return append(b, m.Extra...)
}

// AppendSotW appends the fields of a DiscoveryResponse to b.
func AppendSotW(b []byte, m *Message) []byte {
	if m.Type.V2 {
		m = m.inV2()
	}
	b = appendString(b, rspVersion, m.Version)
	b = appendString(b, rspTypeURL, m.Type.URL)
	b = appendControlPlane(b, sotwControlPlane, m.ControlPlane)
	for _, r := range m.Resources {
		if !r.HasSotW() {
			continue
		}
		b = protowire.AppendVarint(b, rspResources)
		if ttl := m.Lifetimes[r]; ttl > 0 {
			b = appendWrapped(b, envelope{name: r.Name, body: r.Body, ttl: ttl})
		} else {
			b = protowire.AppendBytes(b, r.Body)
		}
	}
	return appendMessages(b, sotwErrors, m.Errors)
}

// AppendNonce appends the field that completes a response of either variant.
func AppendNonce[S string | []byte](b []byte, nonce S) []byte {
	if len(nonce) == 0 {
		return b
	}
	b = protowire.AppendVarint(b, rspNonce)
	b = protowire.AppendVarint(b, uint64(len(nonce)))
	return append(b, nonce...)
}

// appendString appends a string field, unless it is empty, which is the default of proto3.
func appendString(b []byte, tag uint64, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendVarint(b, tag)
	return protowire.AppendString(b, s)
}

func appendControlPlane(b []byte, tag uint64, id string) []byte {
	if id == "" {
		return b
	}
	const identifier = controlPlaneIdentifier<<3 | 2
	b = protowire.AppendVarint(b, tag)
	b = protowire.AppendVarint(b, uint64(stringSize(identifier, id)))
	return appendString(b, identifier, id)
}

func stringSize(tag uint64, s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeVarint(tag) + protowire.SizeBytes(len(s))
}

func appendMessages(b []byte, tag uint64, messages [][]byte) []byte {
	for _, m := range messages {
		b = protowire.AppendVarint(b, tag)
		b = protowire.AppendBytes(b, m)
	}
	return b
}

// WireSize returns an upper bound on the bytes of r in a response of either variant.
func (r *Resource) WireSize() int {
	const tagsAndLengths, wrapper = 32, 96
	n := len(r.Name) + len(r.Version) + len(r.Body) + len(r.Extra) + tagsAndLengths
	if r.TTL != 0 {
		n += wrapper
	}
	return n
}
