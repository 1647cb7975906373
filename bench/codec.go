package bench

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// rawCodec sends []byte and receives into *[]byte, without looking inside.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("bench: cannot send %T, expected []byte", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("bench: cannot receive into %T, expected *[]byte", v)
	}
	*b = data.Materialize()
	return nil
}
