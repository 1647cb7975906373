package main

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// withWarnings calls ask and, if wanted, requests the warnings of the tier at the same time: one request
// after the other would wait twice for a node that does not answer. The error is that of ask.
func (r *remote) withWarnings(ctx context.Context, wanted bool, ask func(ctx context.Context) error) ([]ops.Warning, error) {
	if _, err := r.target(); err != nil { // it is not for concurrent use
		return nil, err
	}
	if !wanted {
		return nil, ask(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var all []ops.Warning
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	asking.Go(func() { all = r.warnings(ctx) })
	if err := ask(ctx); err != nil {
		return nil, err
	}
	asking.Wait()
	return all, nil
}

// warnings returns the warnings of the tier; none if the node cannot answer.
func (r *remote) warnings(ctx context.Context) []ops.Warning {
	var live ops.Live
	if _, err := r.get(ctx, "/api/v1/live", nil, &live); err != nil {
		return nil
	}
	return live.Warnings
}

// warningLines writes the warnings that the table of clients does not show: SYNCED means that a client
// has what its node has, and the control plane of the node may be unreachable.
func warningLines(w io.Writer, all []ops.Warning, now time.Time) {
	admin.WriteWarnings(w, slices.DeleteFunc(slices.Clone(all), func(one ops.Warning) bool {
		return one.Kind == ops.AboutSilence || one.Kind == ops.AboutClients
	}), now)
}
