package rollout

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Hash is the place of a client in the order in which clients become canaries. It is the same on
// each node. Clients with one node id and one identity have one hash: they are one canary.
type Hash uint64

// HashOf returns the hash of a client of a key: from the salt of the key, the node id, and the
// identity that the client has proven, empty without one.
func HashOf(salt, key, nodeID, identity string) Hash {
	var d xxhash.Digest
	d.Reset()
	var size [binary.MaxVarintLen64]byte
	for _, text := range [...]string{salt, key, nodeID, identity} {
		// With its size no text can pretend to be the begin of the next one.
		_, _ = d.Write(size[:binary.PutUvarint(size[:], uint64(len(text)))]) // it never fails
		_, _ = d.WriteString(text)
	}
	return Hash(d.Sum64())
}

// bucketBits is how many bits of a hash choose its bucket.
const bucketBits = 10

// Buckets is how many buckets hashes are counted in, in the order of the hashes.
const Buckets = 1 << bucketBits

func (h Hash) bucket() int { return int(h >> (64 - bucketBits)) }
