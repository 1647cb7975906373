package grpcgo

import (
	"reflect"
	"testing"
)

type (
	noWrite    struct{}
	otherWrite struct{}
)

func (*otherWrite) Write([]byte) (int, error) { return 0, nil }

// TestUnknownTransport: a stream that is not of grpc-go as we know it is not written to.
func TestUnknownTransport(t *testing.T) {
	for _, to := range []any{&noWrite{}, &otherWrite{}} {
		if _, err := newWire(reflect.TypeOf(to)); err == nil {
			t.Errorf("a %T can be written to", to)
		}
	}
}
