package relay

import (
	"context"
	"net/url"
	"slices"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/trace"
)

// askTraces is the question how far updates have come that are below spans of another
// node; paramSpan names one of these.
const askTraces, paramSpan = "traces", "span"

// followTraces makes the span of an update last until the clients of all nodes have
// answered.
func (n *Node) followTraces() {
	tracer := n.metrics.Tracer()
	n.tier.Handle(askTraces, func(_ context.Context, q url.Values) (any, error) { return tracer.Parts(q[paramSpan]), nil }, paramSpan)
	tracer.Follow(func(ctx context.Context, spans []string) []trace.Part {
		others := func(node string) bool { return node != n.name }
		parts, _ := ops.AskAll[[]trace.Part](ctx, n.everybody(), askTraces, url.Values{paramSpan: spans}, others)
		return slices.Concat(parts...)
	})
}
