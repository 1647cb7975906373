package resource

import "google.golang.org/protobuf/encoding/protowire"

// Message is a response that is to be encoded, all but its nonce, which differs
// per client and may follow anywhere: protobuf fields have no fixed order.
type Message struct {
	// Type is what the response is about.
	Type *Type
	// Version is version_info (SotW) or system_version_info (delta, where it is
	// informational only: D7).
	Version string
	// ControlPlane is control_plane.identifier; empty for none.
	ControlPlane string
	// Resources are written as they are here, in this order. Those without a
	// body have no SotW form and are left out there.
	Resources []*Resource
	// Removed are the names in removed_resources (delta only).
	Removed []string
}

// AppendDelta appends the fields of a DeltaDiscoveryResponse to b.
func AppendDelta(b []byte, m *Message) []byte {
	b = appendString(b, rspVersion, m.Version)
	b = appendString(b, rspTypeURL, m.Type.URL)
	b = appendControlPlane(b, deltaControlPlane, m.ControlPlane)
	for _, r := range m.Resources {
		b = protowire.AppendVarint(b, rspResources)
		b = protowire.AppendVarint(b, uint64(envelopeSize(r)))
		b = appendString(b, resName, r.Name)
		b = appendString(b, resVersion, r.Version)
		if r.Body != nil {
			b = protowire.AppendVarint(b, resBody)
			b = protowire.AppendBytes(b, r.Body)
		}
		b = append(b, r.Extra...)
	}
	for _, name := range m.Removed {
		b = protowire.AppendVarint(b, deltaRemoved)
		b = protowire.AppendString(b, name)
	}
	return b
}

// AppendSotW appends the fields of a DiscoveryResponse to b.
func AppendSotW(b []byte, m *Message) []byte {
	b = appendString(b, rspVersion, m.Version)
	b = appendString(b, rspTypeURL, m.Type.URL)
	b = appendControlPlane(b, sotwControlPlane, m.ControlPlane)
	for _, r := range m.Resources {
		if r.Body != nil {
			b = protowire.AppendVarint(b, rspResources)
			b = protowire.AppendBytes(b, r.Body)
		}
	}
	return b
}

// AppendNonce appends the field that completes a response of either variant.
func AppendNonce(b []byte, nonce string) []byte { return appendString(b, rspNonce, nonce) }

// appendString appends a string field, unless it is empty: proto3's default.
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

func envelopeSize(r *Resource) int {
	n := stringSize(resName, r.Name) + stringSize(resVersion, r.Version) + len(r.Extra)
	if r.Body != nil {
		n += protowire.SizeVarint(resBody) + protowire.SizeBytes(len(r.Body))
	}
	return n
}
