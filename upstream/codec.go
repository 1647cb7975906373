package upstream

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"xdsrelay/relay/resource"
)

// adsMethod returns the gRPC method of ADS for a transport version and variant. The messages of
// version 2 are a subset of those of version 3 with the same field numbers, so nothing else
// differs: fields that version 2 lacks are absent in responses, and the server skips them in
// requests (J3).
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

// incoming receives one response. It is decoded from the buffers of the transport without
// unmarshalling resource bodies (D2).
type incoming struct {
	delta    bool
	peer     bool // another node sent it
	earlier  func(*resource.Type) resource.Earlier
	response *resource.Response
	err      error // the whole message is malformed
}

// codec sends ordinary messages and decodes received ones into an incoming.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal never fails on a message from a server. If it did, the transport would end the stream
// without naming the server or the message.
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
		m.response, m.err = resource.DecodeSotW(buf.ReadOnlyData(), m.earlier)
	}
	return nil
}
