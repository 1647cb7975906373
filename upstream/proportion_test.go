package upstream

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"xdsrelay/relay/resource"
)

// TestEmptyEntries: a response of very many empty entries, each of which would use hundreds of
// bytes of memory, is rejected before anything is made of them, with an error that has the field,
// the number and the bound. A response with the same number of the smallest entries that a control
// plane sends is accepted.
func TestEmptyEntries(t *testing.T) {
	const size = 2 << 20
	part := func(b []byte, number protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
	}
	response := func(number protowire.Number, entry func(i int) []byte) (b []byte) {
		b = part(nil, 4, []byte(resource.ClusterURL))
		for i := 0; len(b) < size; i++ {
			b = part(b, number, entry(i))
		}
		return b
	}
	digits := func(i int) []byte { return []byte(fmt.Sprint(i)) }
	called := func(i int) []byte { return part(nil, 1, digits(i)) }
	for _, tc := range []struct {
		field   string
		delta   bool
		number  protowire.Number
		wrapped bool // they are in one resource
		least   func(i int) []byte
	}{
		{field: "resource_errors", number: 7, least: func(i int) []byte { return part(part(nil, 1, called(i)), 2, part(nil, 2, []byte("x"))) }},
		{field: "resource_errors", delta: true, number: 9, least: func(i int) []byte { return part(part(nil, 1, called(i)), 2, part(nil, 2, []byte("x"))) }},
		{field: "removed_resources", delta: true, number: 6, least: digits},
		{field: "removed_resource_names", delta: true, number: 8, least: called},
		{field: "resources", number: 2, least: func(i int) []byte { return part(part(nil, 1, []byte(resource.ClusterURL)), 2, part(nil, 1, digits(i))) }},
		{field: "resources", delta: true, number: 2, least: func(i int) []byte { return part(part(part(nil, 3, digits(i)), 1, []byte("1")), 6, []byte{8, 60}) }},
		{field: "resources.aliases", delta: true, number: 2, wrapped: true},
	} {
		t.Run(fmt.Sprintf("%s delta=%v", tc.field, tc.delta), func(t *testing.T) {
			bad := response(tc.number, func(int) []byte { return nil })
			if tc.wrapped {
				var aliases []byte
				for len(aliases) < size {
					aliases = part(aliases, 4, nil)
				}
				bad = part(part(nil, 4, []byte(resource.ClusterURL)), tc.number, append(part(nil, 3, []byte("c")), aliases...))
			}
			got, took := received(t, tc.delta, bad)
			if got.err == nil || !strings.HasPrefix(got.err.Error(), tc.field+" has ") || !strings.Contains(got.err.Error(), "entries, expected at most") {
				t.Errorf("the error is %v, expected one of the entries of %s", got.err, tc.field)
			}
			if most := uint64(12 * len(bad)); took > most {
				t.Errorf("%d bytes take %d bytes of memory, expected at most %d", len(bad), took, most)
			}
			if tc.least == nil {
				return
			}
			if got, _ = received(t, tc.delta, response(tc.number, tc.least)); got.err != nil {
				t.Errorf("a response of the least entries: %v", got.err)
			}
		})
	}
}

// servesBytes returns the address of a server that sends a response of these bytes on each stream,
// which then stays open.
func servesBytes(t *testing.T, b []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	response := &emptypb.Empty{}
	response.ProtoReflect().SetUnknown(b)
	gs := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := s.SendMsg(response); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = gs.Serve(l)
	}()
	t.Cleanup(func() { gs.Stop(); <-served })
	return l.Addr().String()
}

// received returns the result of a response that a server sends, and the memory that is allocated
// meanwhile.
func received(t *testing.T, delta bool, b []byte) (in *incoming, took uint64) {
	t.Helper()
	address := servesBytes(t, b)
	cp, err := NewControlPlane(ControlPlaneConfig{Addresses: []string{address}, Credentials: insecure.NewCredentials(), MaxReceiveBytes: 2 * len(b)})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Close()
	if err := cp.servers[0].waitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := cp.servers[0].open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in = &incoming{delta: delta}
	if err := s.RecvMsg(in); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return in, after.TotalAlloc - before.TotalAlloc
}
