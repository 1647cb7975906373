package upstream

import (
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// The bounds on the memory of a response, as multiples of its size: all that is allocated while it
// is read and applied, whether live at the same time or not, and what stays live.
const (
	mostAllocated = 60
	mostKept      = 25
)

// TestMemoryOfAResponse: a response with as many of the smallest entries as are accepted uses a
// bounded multiple of its size. docs/reference/limits.md has the numbers.
func TestMemoryOfAResponse(t *testing.T) {
	const size = 4 << 20
	part := func(b []byte, number protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
	}
	digits := func(i int) []byte { return []byte(fmt.Sprint(i)) }
	cluster := func(i int) []byte {
		return part(part(nil, 1, []byte(resource.ClusterURL)), 2, part(nil, 1, digits(i)))
	}
	deltaResource := func(i int) []byte {
		return part(part(part(nil, 3, digits(i)), 1, []byte("1")), 2, cluster(i))
	}
	called := func(i int) []byte { return part(nil, 1, digits(i)) }
	failed := func(i int) []byte { return part(part(nil, 1, called(i)), 2, part(nil, 2, []byte("x"))) }
	for _, tc := range []struct {
		field  string
		delta  bool
		number protowire.Number
		entry  func(i int) []byte
	}{
		{"resources", true, 2, deltaResource},
		{"resources", false, 2, cluster},
		{"resource_errors", true, 9, failed},
		{"resource_errors", false, 7, failed},
		{"removed_resources", true, 6, digits},
		{"removed_resource_names", true, 8, called},
		{"resources.aliases", true, 0, digits},
	} {
		t.Run(fmt.Sprintf("%s delta=%v", tc.field, tc.delta), func(t *testing.T) {
			b := part(part(part(nil, 1, []byte("1")), 4, []byte(resource.ClusterURL)), 5, []byte("n"))
			first, n := cluster(0), 1 // this resource shows that the response was applied
			if tc.delta {
				first = deltaResource(0)
			}
			for ; tc.number == 0 && len(first) < size; n++ {
				first = part(first, 4, tc.entry(n))
			}
			for b = part(b, 2, first); len(b) < size; n++ {
				b = part(b, tc.number, tc.entry(n))
			}
			resources := 1
			if tc.number == 2 {
				resources = n
			}
			allocated, kept := memoryOf(t, tc.delta, b, resources)
			t.Logf("%d bytes with %d entries: %.1f times that is allocated, %.1f times kept", len(b), n, allocated, kept)
			if allocated > mostAllocated || kept > mostKept {
				t.Errorf("a response of %d bytes takes %.1f times its size, and %.1f times afterwards; expected at most %d and %d", len(b), allocated, kept, mostAllocated, mostKept)
			}
		})
	}
}

// memoryOf returns how much is allocated until a response of a server is in the table of a key with
// a wildcard client, and how much of that stays live, as multiples of its size.
func memoryOf(t *testing.T, delta bool, b []byte, resources int) (allocated, kept float64) {
	t.Helper()
	r := newRig(t, ControlPlaneConfig{Addresses: []string{servesBytes(t, b)}, Credentials: insecure.NewCredentials(), MaxReceiveBytes: 2 * len(b), Delta: delta})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	r.join("k").want(resource.ClusterURL, xdstest.Wildcard)
	xdstest.Eventually(t, "all resources", func() bool {
		tables := r.cache.GroupInfos()[0].Tables
		return len(tables) > 0 && tables[0].Resources == resources
	})
	runtime.ReadMemStats(&after)
	allocated = float64(after.TotalAlloc-before.TotalAlloc) / float64(len(b))
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept = (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(len(b))
	runtime.KeepAlive(b)
	return allocated, kept
}
