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
	maxNode                             = 4 << 10 // bytes beyond which the metadata is left out, and then the rest
	nodeFields                          = 1<<nodeIDField | 1<<nodeClusterField | 1<<nodeLocalityField | 1<<nodeAgentField | 1<<nodeAgentVersion | 1<<nodeFeaturesField
	nodeNameFields                      = 1<<nodeIDField | 1<<nodeClusterField
	nodeFieldsMetadata                  = nodeFields | 1<<nodeMetadataField
)

// identity is what is kept of a client's Node for as long as its stream lives:
// the encoded fields that tell who it is, as one string that all others are parts
// of. The long list of extensions that Envoy knows is no part of it.
type identity struct {
	node, id, cluster string
	fields            uint64 // that are in node, bits by number
}

// identityOf reads an encoded Node, which is well-formed. Of what is too large only
// id and cluster are kept, which are bounded for clients that are let in.
func identityOf(raw []byte) identity {
	i := identityWith(raw, nodeFieldsMetadata)
	if len(i.node) > maxNode {
		i = identityWith(raw, nodeFields)
	}
	if len(i.node) > maxNode {
		i = identityNamed(i.id, i.cluster)
	}
	return i
}

// KeepNode returns what is kept of an encoded Node, which is well-formed: a string for
// [KeptNode], a few KiB at most beside id and cluster.
func KeepNode(raw []byte) string { return identityOf(raw).node }

// identityNamed is an identity of a name alone.
func identityNamed(id, cluster string) identity {
	kept := make([]byte, 0, len(id)+len(cluster)+12)
	kept = protowire.AppendString(protowire.AppendTag(kept, nodeIDField, protowire.BytesType), id)
	endOfID := len(kept)
	kept = protowire.AppendString(protowire.AppendTag(kept, nodeClusterField, protowire.BytesType), cluster)
	node := string(kept)
	return identity{node, node[endOfID-len(id) : endOfID], node[len(node)-len(cluster):], nodeNameFields}
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
	return identity{node, node[id[0]:id[1]], node[cluster[0]:cluster[1]], fields}
}

// valueAt is where the value of the last field of b is, which has n bytes and is
// a string.
func valueAt(b []byte, n int) [2]int {
	field := b[len(b)-n:]
	_, _, tag := protowire.ConsumeTag(field)
	_, length := protowire.ConsumeVarint(field[tag:])
	return [2]int{len(b) - n + tag + length, len(b)}
}
