package upstream

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"xdsrelay/relay/resource"
)

// adsMethod is the method of ADS in one version of the transport and one variant.
// The messages of version 2 are a part of those of version 3, with equal numbers,
// so nothing else differs: what it lacks is not there in responses, and skipped by
// the server in requests (J3).
func adsMethod(v2, delta bool) string {
	version, method := "v3", "StreamAggregatedResources"
	if v2 {
		version = "v2"
	}
	if delta {
		method = "DeltaAggregatedResources"
	}
	return "/envoy.service.discovery." + version + ".AggregatedDiscoveryService/" + method
}

// incoming receives one response, decoded from the transport's buffers without
// unmarshalling bodies (D2).
type incoming struct {
	delta    bool
	peer     bool // another node sent it
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
	switch {
	case m.peer:
		m.response, m.err = resource.DecodePeer(buf.ReadOnlyData())
	case m.delta:
		m.response, m.err = resource.DecodeDelta(buf.ReadOnlyData())
	default:
		m.response, m.err = resource.DecodeSotW(buf.ReadOnlyData())
	}
	return nil
}
