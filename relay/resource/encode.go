package resource

import "google.golang.org/protobuf/encoding/protowire"

// AppendDelta appends the fields of a DeltaDiscoveryResponse to b, all but the
// nonce, which differs per client and may follow anywhere: protobuf fields
// have no fixed order. version is informational only (D7).
func AppendDelta(b []byte, t *Type, version, controlPlane string, resources []*Resource, removed []string) []byte {
	b = appendString(b, rspVersion, version)
	b = appendString(b, rspTypeURL, t.URL)
	b = appendControlPlane(b, deltaControlPlane, controlPlane)
	for _, r := range resources {
		b = protowire.AppendTag(b, rspResources, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(envelopeSize(r)))
		b = appendString(b, resName, r.Name)
		b = appendString(b, resVersion, r.Version)
		if r.Body != nil {
			b = protowire.AppendTag(b, resBody, protowire.BytesType)
			b = protowire.AppendBytes(b, r.Body)
		}
		b = append(b, r.Extra...)
	}
	for _, name := range removed {
		b = protowire.AppendTag(b, deltaRemoved, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	return b
}

// AppendSotW appends the fields of a DiscoveryResponse to b, all but the nonce;
// see [AppendDelta]. Resources without a body have no SotW form and are left
// out.
func AppendSotW(b []byte, t *Type, version, controlPlane string, resources []*Resource) []byte {
	b = appendString(b, rspVersion, version)
	b = appendString(b, rspTypeURL, t.URL)
	b = appendControlPlane(b, sotwControlPlane, controlPlane)
	for _, r := range resources {
		if r.Body != nil {
			b = protowire.AppendTag(b, rspResources, protowire.BytesType)
			b = protowire.AppendBytes(b, r.Body)
		}
	}
	return b
}

// AppendNonce appends the field that completes a response of either variant.
func AppendNonce(b []byte, nonce string) []byte { return appendString(b, rspNonce, nonce) }

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

func appendControlPlane(b []byte, field protowire.Number, id string) []byte {
	if id == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(stringSize(controlPlaneIdentifier, id)))
	return appendString(b, controlPlaneIdentifier, id)
}

func stringSize(field protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(s))
}

func envelopeSize(r *Resource) int {
	n := stringSize(resName, r.Name) + stringSize(resVersion, r.Version) + len(r.Extra)
	if r.Body != nil {
		n += protowire.SizeTag(resBody) + protowire.SizeBytes(len(r.Body))
	}
	return n
}
