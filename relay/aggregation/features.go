package aggregation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Limits on what a client announces; Envoy and gRPC announce fewer than ten.
const (
	maxFeatures     = 64
	maxFeatureBytes = 256
)

// relayFeatures is what the relay itself understands from a control plane,
// whatever its clients do (C17). Sorted.
var relayFeatures = [...]string{"xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"}

// grpcFeatures is what the gRPC libraries add to the Node of their bootstrap.
var grpcFeatures = [...]string{"envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"}

// A client's feature belongs to one of three kinds (K5).
type featureKind int

const (
	featurePayload    featureKind = iota // changes payloads: in the key, passed upstream
	featureTranslated                    // the relay serves either way: neither
)

// kindOf sorts a feature; one that the relay does not know may change payloads.
func kindOf(feature string) featureKind {
	switch feature {
	case "xds.config.resource-in-sotw",
		"xds.config.supports-resource-in-sotw", // the documentation's spelling of the one above (F1)
		"xds.config.supports-resource-ttl",
		"envoy.lrs.supports_send_all_clusters": // load reports do not pass through here
		return featureTranslated
	}
	return featurePayload
}

// shortFeature is how a well-known feature is written in a key. None of these is
// of the form that unknown features take there.
func shortFeature(feature string) string {
	switch feature {
	case "envoy.config.require-any-fields-contain-struct":
		return "any-struct"
	case "envoy.lb.does_not_support_overprovisioning":
		return "no-overprovisioning"
	}
	return ""
}

// payloadFeatures returns those of a client's features that change payloads,
// sorted, each once (K5).
func payloadFeatures(announced []string) ([]string, error) {
	var out []string
	for _, f := range announced {
		if f == "" || kindOf(f) != featurePayload {
			continue
		}
		if len(f) > maxFeatureBytes {
			return nil, fmt.Errorf("a client feature has %d bytes, expected at most %d", len(f), maxFeatureBytes)
		}
		if len(out) == maxFeatures {
			return nil, fmt.Errorf("more than %d client features", maxFeatures)
		}
		out = append(out, f)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// featureSuffix writes payload features into the key: known ones by a short name,
// all others together as one digest, since a client may announce many and long
// ones.
func featureSuffix(payload []string) string {
	var b strings.Builder
	unknown := sha256.New()
	some := false
	for _, f := range payload {
		if short := shortFeature(f); short != "" {
			b.WriteString("+" + short)
			continue
		}
		some = true
		unknown.Write(appendString(nil, f))
	}
	if some {
		b.WriteString("+x" + hex.EncodeToString(unknown.Sum(nil)[:digestBytes]))
	}
	return b.String()
}

// upstreamFeatures is what a group announces: what the relay translates and what
// every member has, as the key says (K5). Sorted.
func upstreamFeatures(payload []string) []string {
	out := append(slices.Clone(relayFeatures[:]), payload...)
	slices.Sort(out)
	return out
}
