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

// withWarnings asks the node for something, and at the same time for what an operator
// should look at in the tier beside it: a node that waits for another one would otherwise
// be waited for twice. The error is that of ask.
func (r *remote) withWarnings(ctx context.Context, ask func(ctx context.Context) error) ([]ops.Warning, error) {
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

// warnings are those of the tier. A node that is too old to be asked has nothing to say.
func (r *remote) warnings(ctx context.Context) []ops.Warning {
	var live ops.Live
	if _, err := r.get(ctx, "/api/v1/live", nil, &live); err != nil {
		return nil
	}
	return live.Warnings
}

// warningLines tells them beside the clients: SYNCED means that a client has what its
// node has, and the origin of that may be away.
func warningLines(w io.Writer, all []ops.Warning, now time.Time) {
	admin.WriteWarnings(w, slices.DeleteFunc(slices.Clone(all), func(one ops.Warning) bool {
		return one.Kind == ops.AboutSilence || one.Kind == ops.AboutClients // the table and the lines below it tell
	}), now)
}
