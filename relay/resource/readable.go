package resource

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// MaxNesting is how deep messages may be nested in what the relay forwards: the protobuf libraries
// for C++ and Java decode no deeper.
const MaxNesting = 100

// readable returns why the protobuf library of a client cannot decode a part of a response that is
// forwarded unchanged. m is an empty message of its type. A response with one such part would end
// the stream of every client that receives it, after each reconnect.
func readable(m proto.Message, part []byte) error {
	if err := (proto.UnmarshalOptions{RecursionLimit: MaxNesting, DiscardUnknown: true}).Unmarshal(part, m); err != nil {
		return fmt.Errorf("clients cannot decode it: %w", err)
	}
	return nil
}

// checkExtra checks the fields in [Resource.Extra].
func (r *Resource) checkExtra() error { return readable(&discoveryv3.Resource{}, r.Extra) }

// checkName checks an encoded ResourceName; only its constraints have not been decoded yet.
func (a *About) checkName(b []byte) error {
	if a.Variant == "" {
		return nil
	}
	return readable(&discoveryv3.ResourceName{}, b)
}

// checkError checks an encoded ResourceError.
func checkError(b []byte) error { return readable(&discoveryv3.ResourceError{}, b) }
