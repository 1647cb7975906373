package fleet

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of DeltaDiscoveryRequest.
const (
	reqNode, reqType, reqSubscribe, reqUnsubscribe = 1, 2, 3, 4
	reqInitial, reqNonce, reqError                 = 5, 6, 7
)

// Field numbers of DiscoveryRequest.
const (
	sotwVersion, sotwNode, sotwNames      = 1, 2, 3
	sotwType, sotwNonce, sotwErrorDetails = 4, 5, 6
)

// Field numbers of Node and Status.
const (
	nodeID, nodeCluster, nodeAgent = 1, 2, 6
	statusCode, statusMessage      = 1, 2
)

const invalidArgument = 3

func appendString(b []byte, num int, s string) []byte {
	b = protowire.AppendTag(b, protowire.Number(num), protowire.BytesType)
	return protowire.AppendString(b, s)
}

func appendBytes(b []byte, num int, v []byte) []byte {
	b = protowire.AppendTag(b, protowire.Number(num), protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

// appendNode appends the node that a stream's first request carries.
func appendNode(b []byte, num int, id, cluster string) []byte {
	var node [128]byte
	n := appendString(node[:0], nodeID, id)
	n = appendString(n, nodeCluster, cluster)
	n = appendString(n, nodeAgent, "xdsbench")
	return appendBytes(b, num, n)
}

// appendError appends what makes a request a NACK.
func appendError(b []byte, num int, text string) []byte {
	s := protowire.AppendTag(nil, statusCode, protowire.VarintType)
	s = protowire.AppendVarint(s, invalidArgument)
	return appendBytes(b, num, appendString(s, statusMessage, text))
}
