package upstream

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"xdsrelay/relay/resource"
)

// The methods of ADS.
const (
	sotwMethod  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
)

// incoming receives one response, decoded from the transport's buffers without
// unmarshalling bodies (D2).
type incoming struct {
	delta    bool
	response *resource.Response
	err      error // the message as a whole cannot be read
}

// codec sends ordinary messages and receives into an incoming.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal never fails on what a server sent, since the transport would end
// the stream without saying which server sent what.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*incoming)
	if !ok {
		return fmt.Errorf("cannot receive into a %T, expected *incoming", v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if m.delta {
		m.response, m.err = resource.DecodeDelta(buf.ReadOnlyData())
	} else {
		m.response, m.err = resource.DecodeSotW(buf.ReadOnlyData())
	}
	return nil
}
