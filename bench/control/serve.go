package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// order is a line that a parent writes.
type order struct {
	Do   string          `json:"do"`
	Args json.RawMessage `json:"args,omitempty"`
}

// line is a line that a child writes. It has one of the fields.
type line struct {
	Ready json.RawMessage `json:"ready,omitempty"`
	Reply json.RawMessage `json:"reply,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Handler does one order and returns the reply, which has to be fit for JSON.
// The context ends when the child has to end.
type Handler func(ctx context.Context, args json.RawMessage) (reply any, err error)

// On makes a handler of a function that takes its arguments as a struct. Fields
// that the struct does not have are refused; no arguments give the zero struct.
func On[Args, Reply any](do func(ctx context.Context, args Args) (Reply, error)) Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args Args
		if len(raw) > 0 {
			in := json.NewDecoder(bytes.NewReader(raw))
			in.DisallowUnknownFields()
			if err := in.Decode(&args); err != nil {
				return nil, fmt.Errorf("arguments: %w", err)
			}
		}
		return do(ctx, args)
	}
}

// Nothing is a reply or arguments that say nothing.
type Nothing struct{}

// Serve is the child's side: it says what ready holds and then does orders, one
// after the other, until in or ctx ends, which is no error. A handler that runs
// then is told by its context and waited for. Where ctx ends first, one
// goroutine stays that waits for the end of in.
func Serve(ctx context.Context, in io.Reader, out io.Writer, ready any, handlers map[string]Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := json.NewEncoder(out)
	b, err := json.Marshal(ready)
	if err == nil {
		err = lines.Encode(line{Ready: b})
	}
	if err != nil {
		return fmt.Errorf("control: report that it is ready: %w", err)
	}
	orders, ended := make(chan order), make(chan error, 1)
	go func() {
		ended <- readOrders(ctx, in, orders)
		cancel() // whatever is being done is of no use any more
	}()
	for {
		select {
		case <-ctx.Done():
		case o := <-orders:
			if err := lines.Encode(answer(ctx, o, handlers)); err != nil && ctx.Err() == nil {
				return fmt.Errorf("control: answer %s: %w", o.Do, err)
			}
			continue
		}
		select {
		case err := <-ended:
			return err
		default:
			return nil
		}
	}
}

// readOrders passes orders on until there are no more.
func readOrders(ctx context.Context, in io.Reader, orders chan<- order) error {
	for from := json.NewDecoder(in); ; {
		var o order
		switch err := from.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("control: orders: %w", err)
		}
		select {
		case orders <- o:
		case <-ctx.Done():
			return nil
		}
	}
}

func answer(ctx context.Context, o order, handlers map[string]Handler) line {
	do, ok := handlers[o.Do]
	if !ok {
		known := slices.Sorted(maps.Keys(handlers))
		return line{Error: fmt.Sprintf("unknown order %q, expected one of %s", o.Do, strings.Join(known, ", "))}
	}
	reply, err := do(ctx, o.Args)
	if err != nil {
		return line{Error: err.Error()}
	}
	b, err := json.Marshal(reply)
	if err != nil {
		return line{Error: fmt.Sprintf("reply: %v", err)}
	}
	return line{Reply: b}
}
