package redact

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
)

// Holds reports whether a resource, with its envelope, holds what is not to be
// shown. What cannot be read counts as that, as everywhere here.
func (r *Redactor) Holds(one *resource.Resource) bool {
	a, envelope := &anypb.Any{}, &discoveryv3.Resource{}
	if proto.Unmarshal(one.Body, a) != nil || proto.Unmarshal(one.Extra, envelope) != nil {
		return true
	}
	return r.Any(a) || r.Message(envelope)
}
