package fleet

import (
	"context"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/control"
)

// The orders that a fleet takes as a child of another program.
const (
	// OrderConnect takes [ConnectArgs], lets clients connect and replies with
	// [Reached].
	OrderConnect = "connect"
	// OrderAwait takes [AwaitArgs], waits until the clients hold a revision and
	// replies with [Reached].
	OrderAwait = "await"
	// OrderExpect takes a [Plan] and replies nothing.
	OrderExpect = "expect"
	// OrderReset begins counts and distributions anew and replies nothing.
	OrderReset = "reset"
	// OrderStats replies with [Stats].
	OrderStats = "stats"
	// OrderStorm takes [StormArgs], lets all clients reconnect and replies with
	// [Stormed].
	OrderStorm = "storm"
	// OrderReact takes a [Reaction] and replies nothing.
	OrderReact = "react"
	// OrderExposure takes [ExposureArgs] and replies with [Exposure].
	OrderExposure = "exposure"
	// OrderReport takes [Reports], makes all clients send load reports and replies nothing.
	OrderReport = "report"
	// OrderClose ends all connections and replies nothing.
	OrderClose = "close"
)

// Ready is what a fleet says first.
type Ready struct {
	Clients int `json:"clients"`
}

// ConnectArgs are the arguments of [OrderConnect].
type ConnectArgs struct {
	// Clients is how many more connect; 0 means all that are left.
	Clients int `json:"clients,omitempty"`
	// Until is what is waited for; empty means [Synced].
	Until Until `json:"until,omitempty"`
	// Timeout bounds the wait; 0 means 5 minutes. In JSON in nanoseconds.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// AwaitArgs are the arguments of [OrderAwait].
type AwaitArgs struct {
	Revision uint64 `json:"revision"`
	// Change is what the revision has changed, in all resources that it is
	// about; nil means that any resource of it will do.
	Change *content.Change `json:"change,omitempty"`
	// Timeout bounds the wait; 0 means 5 minutes. In JSON in nanoseconds.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// StormArgs are the arguments of [OrderStorm].
type StormArgs struct {
	Storm
	// Timeout bounds the wait; 0 means 5 minutes. In JSON in nanoseconds.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// ExposureArgs are the arguments of [OrderExposure].
type ExposureArgs struct {
	// Early is the time after the first client in which others count as early; in JSON in nanoseconds.
	Early time.Duration `json:"early,omitempty"`
}

// within gives an order as long as it was given.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	orElse(&d, 5*time.Minute)
	return context.WithTimeout(ctx, d)
}

// Handlers are the orders.
func (f *Fleet) Handlers() map[string]control.Handler {
	nothing := control.Nothing{}
	return map[string]control.Handler{
		OrderConnect: control.On(func(ctx context.Context, a ConnectArgs) (Reached, error) {
			ctx, cancel := within(ctx, a.Timeout)
			defer cancel()
			return f.Connect(ctx, a.Clients, a.Until)
		}),
		OrderAwait: control.On(func(ctx context.Context, a AwaitArgs) (Reached, error) {
			ctx, cancel := within(ctx, a.Timeout)
			defer cancel()
			return f.Await(ctx, a.Revision, a.Change)
		}),
		OrderStorm: control.On(func(ctx context.Context, a StormArgs) (Stormed, error) {
			ctx, cancel := within(ctx, a.Timeout)
			defer cancel()
			return f.Storm(ctx, a.Storm)
		}),
		OrderReact:    control.On(func(_ context.Context, r Reaction) (control.Nothing, error) { return nothing, f.React(r) }),
		OrderExposure: control.On(func(_ context.Context, a ExposureArgs) (Exposure, error) { return f.Exposure(a.Early), nil }),
		OrderReport:   control.On(func(_ context.Context, r Reports) (control.Nothing, error) { return nothing, f.Report(r) }),
		OrderExpect:   control.On(func(_ context.Context, p Plan) (control.Nothing, error) { return nothing, f.Expect(p) }),
		OrderReset:    control.On(func(context.Context, control.Nothing) (control.Nothing, error) { f.Reset(); return nothing, nil }),
		OrderStats:    control.On(func(context.Context, control.Nothing) (Stats, error) { return f.Stats(), nil }),
		OrderClose:    control.On(func(context.Context, control.Nothing) (control.Nothing, error) { f.Close(); return nothing, nil }),
	}
}
