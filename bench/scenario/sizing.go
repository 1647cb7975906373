package scenario

import (
	"google.golang.org/protobuf/proto"

	"xdsrelay/bench/content"
	"xdsrelay/bench/report"
)

// The formula of docs/operate/sizing.md, in bytes. The scenario limit checks it.
const (
	// SizeOfClient is a client's, SizeOfTLSClient one's with certificates on both sides.
	SizeOfClient    = 39 << 10
	SizeOfTLSClient = 52 << 10
	// SizeOfKey is a key's without its clients and its resources.
	SizeOfKey = 60 << 10
	// SizeOfResource is a resource's but for its body, which counts twice.
	SizeOfResource = 7 << 10 / 10
)

// Sum is what the formula says of a setup, without what is shared.
func Sum(s report.Setup) int64 {
	each := int64(SizeOfClient)
	if s.TLS != "" {
		each = SizeOfTLSClient
	}
	spec := specOf(s)
	resources := int64(0)
	for _, typeURL := range spec.Types() {
		body := proto.Size(spec.Resource(typeURL, 0, 0, content.Stamp{}))
		resources += int64(spec.Count(typeURL)) * int64(SizeOfResource+2*body)
	}
	return int64(s.Clients)*each + int64(s.Keys)*(SizeOfKey+resources)
}

// MemoryFor is the memory limit that docs/operate/sizing.md asks for, in bytes.
func MemoryFor(s report.Setup) int64 { return (Sum(s) + report.SharedMemory) * 3 / 2 }

// sized sets the memory limits of setups.
func sized(setups []report.Setup) []report.Setup {
	for i := range setups {
		setups[i].Memory = MemoryFor(setups[i])
	}
	return setups
}
