package fanout

import "google.golang.org/protobuf/encoding/protowire"

// Fields of a Node that are kept of a client, in both versions of the protocol.
const (
	nodeIDField        protowire.Number = 1
	nodeClusterField   protowire.Number = 2
	nodeMetadataField  protowire.Number = 3
	nodeLocalityField  protowire.Number = 4
	nodeAgentField     protowire.Number = 6
	nodeAgentVersion   protowire.Number = 7
	nodeFeaturesField  protowire.Number = 10
	maxNode                             = 4 << 10 // bytes beyond which the metadata is left out
	nodeFields                          = 1<<nodeIDField | 1<<nodeClusterField | 1<<nodeLocalityField | 1<<nodeAgentField | 1<<nodeAgentVersion | 1<<nodeFeaturesField
	nodeFieldsMetadata                  = nodeFields | 1<<nodeMetadataField
)

// identity is what is kept of a client's Node for as long as its stream lives:
// the encoded fields that tell who it is, as one string that all others are parts
// of. The long list of extensions that Envoy knows is no part of it.
type identity struct {
	node, id, cluster string
	large             bool // the metadata was left out
}

// identityOf reads an encoded Node, which is well-formed.
func identityOf(raw []byte) identity {
	i := identityWith(raw, nodeFieldsMetadata)
	if len(i.node) > maxNode {
		i = identityWith(raw, nodeFields)
		i.large = true
	}
	return i
}

// fields are those that are kept, bits by number.
func (i identity) fields() uint64 {
	if i.large {
		return nodeFields
	}
	return nodeFieldsMetadata
}

// identityWith keeps the fields of a set.
func identityWith(raw []byte, fields uint64) identity {
	kept := make([]byte, 0, min(len(raw), maxNode))
	var id, cluster [2]int // where they are in kept
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			break
		}
		if kind == protowire.BytesType && number < 64 && fields&(1<<number) != 0 { // as all of them are
			kept = append(kept, raw[:n]...)
			switch number {
			case nodeIDField:
				id = valueAt(kept, n)
			case nodeClusterField:
				cluster = valueAt(kept, n)
			}
		}
		raw = raw[n:]
	}
	node := string(kept)
	return identity{node: node, id: node[id[0]:id[1]], cluster: node[cluster[0]:cluster[1]]}
}

// valueAt is where the value of the last field of b is, which has n bytes and is
// a string.
func valueAt(b []byte, n int) [2]int {
	field := b[len(b)-n:]
	_, _, tag := protowire.ConsumeTag(field)
	_, length := protowire.ConsumeVarint(field[tag:])
	return [2]int{len(b) - n + tag + length, len(b)}
}
