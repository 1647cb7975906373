package fanout

import "google.golang.org/protobuf/encoding/protowire"

// Fields of a client's Node that are kept, in both versions of the protocol.
const (
	nodeIDField        protowire.Number = 1
	nodeClusterField   protowire.Number = 2
	nodeMetadataField  protowire.Number = 3
	nodeLocalityField  protowire.Number = 4
	nodeAgentField     protowire.Number = 6
	nodeAgentVersion   protowire.Number = 7
	nodeFeaturesField  protowire.Number = 10
	maxNode                             = 4 << 10 // bytes; a larger Node is kept without metadata, and then without other fields
	nodeFields                          = 1<<nodeIDField | 1<<nodeClusterField | 1<<nodeLocalityField | 1<<nodeAgentField | 1<<nodeAgentVersion | 1<<nodeFeaturesField
	nodeNameFields                      = 1<<nodeIDField | 1<<nodeClusterField
	nodeFieldsMetadata                  = nodeFields | 1<<nodeMetadataField
)

// identity is the part of a client's Node that is kept while its stream is open: the encoded fields
// that identify it, as one string of which the others are parts. The long list of Envoy's
// extensions is not kept.
type identity struct {
	node, id, cluster string
	fields            uint64 // that are in node, as bits by number
}

// identityOf reads an encoded Node, which must be well-formed. Of a Node that is too large it keeps
// only id and cluster, whose sizes are bounded for admitted clients.
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

// KeepNode returns the kept part of an encoded Node, which must be well-formed: a string for
// [KeptNode], at most a few KiB besides id and cluster. fields are those that are kept, as bits by
// number.
func KeepNode(raw []byte) (node string, fields uint64) {
	i := identityOf(raw)
	return i.node, i.fields
}

// identityNamed returns an identity with id and cluster only.
func identityNamed(id, cluster string) identity {
	kept := make([]byte, 0, len(id)+len(cluster)+12)
	kept = protowire.AppendString(protowire.AppendTag(kept, nodeIDField, protowire.BytesType), id)
	endOfID := len(kept)
	kept = protowire.AppendString(protowire.AppendTag(kept, nodeClusterField, protowire.BytesType), cluster)
	node := string(kept)
	return identity{node, node[endOfID-len(id) : endOfID], node[len(node)-len(cluster):], nodeNameFields}
}

// identityWith keeps the given fields.
func identityWith(raw []byte, fields uint64) identity {
	kept := make([]byte, 0, min(len(raw), maxNode))
	var id, cluster [2]int // their positions in kept
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			break
		}
		if kind == protowire.BytesType && number < 64 && fields&(1<<number) != 0 { // all kept fields are of this kind
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

// valueAt returns the position of the value of b's last field, which has n bytes and is a string.
func valueAt(b []byte, n int) [2]int {
	field := b[len(b)-n:]
	_, _, tag := protowire.ConsumeTag(field)
	_, length := protowire.ConsumeVarint(field[tag:])
	return [2]int{len(b) - n + tag + length, len(b)}
}
