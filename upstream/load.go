package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/load"
	"xdsrelay/relay/pause"
)

// loadMethod is the method of LRS.
const loadMethod = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"

// allClusters is the client feature that lets a server request all clusters without naming them.
const allClusters = "envoy.lrs.supports_send_all_clusters"

// finalReportTimeout bounds the end of a report: the rest is sent, and the server must have read
// it.
const finalReportTimeout = 2 * time.Second

// Report sends the load that clients of o report to the control plane, at the interval that it
// requests. When ctx ends it sends the rest. A control plane without LRS is asked again with
// backoff. Report implements [load.Config.Run].
func (c *ControlPlane) Report(ctx context.Context, o *load.Outlet) {
	node := proto.CloneOf(o.Node())
	if !slices.Contains(node.GetClientFeatures(), allClusters) {
		node.ClientFeatures = append(node.ClientFeatures, allClusters)
	}
	if c.cfg.Peer != "" {
		ctx = c.withKey(ctx, string(o.Key()))
	}
	retryLoop(ctx, c.cfg.Backoff, nearest{c.servers}, func(ctx context.Context) ending {
		return c.report(ctx, o, node)
	})
}

// report opens a stream to the nearest server and reports until the stream ends.
func (c *ControlPlane) report(ctx context.Context, o *load.Outlet, node *corev3.Node) (end ending) {
	s := nearest{c.servers}.pick()
	// The stream outlives ctx a little, for the final report.
	sctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stopCancel := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stream, err := s.channel.NewStream(sctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, loadMethod)
	if !stopCancel() {
		return end
	}
	if err == nil {
		r := &reporter{server: s, outlet: o, stream: stream, ctx: sctx, cancel: cancel, opened: time.Now()}
		end = r.run(ctx, node)
	} else {
		end.err = err
	}
	switch {
	case ctx.Err() != nil:
	case status.Code(end.err) == codes.Unimplemented:
		s.journal.loadRefused(end.err)
		o.Refuse(fmt.Errorf("the control plane accepts no load reports: %w", end.err))
	case end.err != nil:
		s.journal.loadFailed(end.err)
	}
	return end
}

// reporter is one stream of load reports.
type reporter struct {
	// Fixed after construction.
	server *server
	outlet *load.Outlet
	stream grpc.ClientStream
	ctx    context.Context // of the stream
	cancel context.CancelCauseFunc
	opened time.Time

	// Owned by run.
	terms *load.Terms // nil before the first response on this stream
	due   time.Time   // time of the next report

	// Set by receive before it ends.
	why error
}

// run reports until the stream or ctx ends.
func (r *reporter) run(ctx context.Context, node *corev3.Node) (end ending) {
	cp := r.server.owner
	responses := make(chan *lrsv3.LoadStatsResponse)
	go r.receive(responses)
	// A blocked send does not notice that ctx has ended.
	stopCancel := context.AfterFunc(ctx, func() {
		pause.For(r.ctx, finalReportTimeout)
		r.cancel(context.Cause(ctx))
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() {
		stopCancel()
		r.cancel(end.err)
		drain(responses)
		end.opened, end.responded, end.lived = true, r.terms != nil, time.Since(r.opened)
		if r.terms != nil {
			cp.metrics.load.stream(-1)
		}
	}()
	_ = r.send(&lrsv3.LoadStatsRequest{Node: node}) // the receiver returns the reason
	for {
		r.arm(timer)
		select {
		case rsp, open := <-responses:
			if !open {
				end.err = r.why
				return end
			}
			if end.err = r.ask(rsp); end.err != nil {
				end.unreadable = true
				return end
			}
		case now := <-timer.C:
			if r.server.index > 0 && r.server != (nearest{cp.servers}).pick() { // a better server is back (C15)
				r.finish(responses)
				return end
			}
			if r.terms != nil && !r.due.After(now) {
				r.report()
				for !r.due.After(now) {
					r.due = r.due.Add(r.terms.Interval)
				}
			}
		case <-ctx.Done():
			r.finish(responses)
			return end
		}
	}
}

// arm sets the timer to the next report, or to the next check for a better server.
func (r *reporter) arm(timer *time.Timer) {
	wait := time.Hour
	if r.terms != nil {
		wait = min(wait, time.Until(r.due))
	}
	if r.server.index > 0 {
		wait = min(wait, recheckEvery)
	}
	timer.Reset(wait)
}

// receive hands over responses until the stream ends.
func (r *reporter) receive(responses chan<- *lrsv3.LoadStatsResponse) {
	defer close(responses)
	for {
		rsp := &lrsv3.LoadStatsResponse{}
		if err := r.stream.RecvMsg(rsp); err != nil {
			_, r.why = endOf(r.ctx, err)
			return
		}
		responses <- rsp // run or drain receives them until the channel is closed
	}
}

// drain waits until receive has ended.
func drain(responses <-chan *lrsv3.LoadStatsResponse) {
	for range responses { // no later report could use them
	}
}

// ask applies what the server requests and passes it on. The first report is due slightly after
// those of the clients, so that it includes them. A response that changes the interval restarts it.
func (r *reporter) ask(rsp *lrsv3.LoadStatsResponse) error {
	terms, err := r.outlet.Ask(rsp)
	if err != nil {
		return err
	}
	if r.terms == nil {
		r.server.owner.metrics.load.stream(1)
		r.server.journal.loadRequested()
	}
	if r.terms == nil || r.terms.Interval != terms.Interval {
		r.due = time.Now().Add(terms.Interval + min(terms.Interval/10, time.Second))
	}
	r.terms = terms
	return nil
}

// report sends the accumulated load. Reports that cannot be sent are given back; those that were
// sent count as delivered, whatever happens to the stream.
func (r *reporter) report() {
	m := r.server.owner.metrics
	requests := r.outlet.Take()
	for i, q := range requests {
		if r.send(q) != nil {
			r.outlet.GiveBack(requests[i:])
			m.load.unsent()
			return // the receiver returns the reason
		}
		m.load.sent(proto.Size(q))
	}
}

func (r *reporter) send(m proto.Message) error {
	return sendWithin(r.server.owner.cfg.SendTimeout, r.stream, r.cancel, m)
}

// errUnread is why the relay cancels a stream that the server does not end.
var errUnread = errors.New("the server did not end the stream in time")

// finish sends the rest, ends the stream from this side and waits until the server has ended it,
// too: then the server has read everything.
func (r *reporter) finish(responses <-chan *lrsv3.LoadStatsResponse) {
	if r.terms == nil {
		return
	}
	late := time.AfterFunc(finalReportTimeout, func() { r.cancel(errUnread) })
	defer late.Stop()
	r.report()
	_ = r.stream.CloseSend()
	drain(responses)
}
