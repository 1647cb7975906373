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
)

// loadMethod is the method of LRS.
const loadMethod = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"

// allClusters is the client feature that lets a server ask for all clusters
// without naming them.
const allClusters = "envoy.lrs.supports_send_all_clusters"

// lastWords is how long the end of a report may take: what is left is sent, and
// the server has to have read it.
const lastWords = 2 * time.Second

// Report tells the control plane what o's clients report, at the interval that
// it asks for, until ctx ends, and then what is left. A control plane that does
// not speak LRS is asked again with backoff. It is what [load.Config.Run] wants.
func (c *ControlPlane) Report(ctx context.Context, o *load.Outlet) {
	node := proto.CloneOf(o.Node())
	if !slices.Contains(node.GetClientFeatures(), allClusters) {
		node.ClientFeatures = append(node.ClientFeatures, allClusters)
	}
	if c.cfg.Peer != "" {
		ctx = c.withKey(ctx, string(o.Key()))
	}
	persist(ctx, c.cfg.Backoff, nearest{c.servers}, func(ctx context.Context) ending {
		return c.report(ctx, o, node)
	})
}

// report opens a stream to the nearest server and reports until it ends.
func (c *ControlPlane) report(ctx context.Context, o *load.Outlet, node *corev3.Node) (end ending) {
	s := nearest{c.servers}.pick()
	// The stream outlives ctx a little, for the last words.
	sctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	hurried := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stream, err := s.channel.NewStream(sctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, loadMethod)
	if !hurried() {
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
		o.Refuse(fmt.Errorf("the control plane takes no load reports: %w", end.err))
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
	ctx    context.Context // the stream's
	cancel context.CancelCauseFunc
	opened time.Time

	// Owned by run.
	terms *load.Terms // nil before the first response on this stream
	due   time.Time   // of the next report

	// Set by receive when it is done.
	why error
}

// run reports until the stream ends, or ctx does.
func (r *reporter) run(ctx context.Context, node *corev3.Node) (end ending) {
	cp := r.server.owner
	responses := make(chan *lrsv3.LoadStatsResponse)
	go r.receive(responses)
	// A send that blocks does not see that ctx has ended.
	hurried := context.AfterFunc(ctx, func() {
		sleep(r.ctx, lastWords)
		r.cancel(context.Cause(ctx))
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() {
		hurried()
		r.cancel(end.err)
		drain(responses)
		end.opened, end.responded, end.lived = true, r.terms != nil, time.Since(r.opened)
		if r.terms != nil {
			cp.metrics.load.stream(-1)
		}
	}()
	_ = r.send(&lrsv3.LoadStatsRequest{Node: node}) // the receiver is told why not
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
			if r.server.index > 0 && r.server != (nearest{cp.servers}).pick() { // a better one is back (C15)
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

// arm sets the timer to the next report, or to the next look for a better server.
func (r *reporter) arm(timer *time.Timer) {
	wait := time.Hour
	if r.terms != nil {
		wait = min(wait, time.Until(r.due))
	}
	if r.server.index > 0 {
		wait = min(wait, turnEvery)
	}
	timer.Reset(wait)
}

// receive hands responses over until the stream ends.
func (r *reporter) receive(responses chan<- *lrsv3.LoadStatsResponse) {
	defer close(responses)
	for {
		rsp := &lrsv3.LoadStatsResponse{}
		if err := r.stream.RecvMsg(rsp); err != nil {
			_, r.why = endOf(r.ctx, err)
			return
		}
		responses <- rsp // somebody takes them until they are over
	}
}

// drain waits until the receiver is done.
func drain(responses <-chan *lrsv3.LoadStatsResponse) {
	for range responses { // there will be no report that they could change
	}
}

// ask takes what the server wants to be told, and passes it on. The first report
// is due a little later than those of the clients, so that theirs are part of
// it. A response that changes the interval starts it anew.
func (r *reporter) ask(rsp *lrsv3.LoadStatsResponse) error {
	terms, err := r.outlet.Ask(rsp)
	if err != nil {
		return err
	}
	if r.terms == nil {
		r.server.owner.metrics.load.stream(1)
		r.server.journal.loadTaken()
	}
	if r.terms == nil || r.terms.Interval != terms.Interval {
		r.due = time.Now().Add(terms.Interval + min(terms.Interval/10, time.Second))
	}
	r.terms = terms
	return nil
}

// report sends what was added up. What cannot be sent is given back; what was
// sent counts as delivered, whatever becomes of the stream.
func (r *reporter) report() {
	m := r.server.owner.metrics
	requests := r.outlet.Take()
	for i, q := range requests {
		if r.send(q) != nil {
			r.outlet.GiveBack(requests[i:])
			m.load.unsent()
			return // the receiver is told why
		}
		m.load.sent(proto.Size(q))
	}
}

func (r *reporter) send(m proto.Message) error {
	return sendWithin(r.server.owner.cfg.SendTimeout, r.stream, r.cancel, m)
}

// errUnread is why a stream is cancelled whose server does not end it.
var errUnread = errors.New("the server did not end the stream in time")

// finish says what is left, ends the stream from this side and waits until the
// server has done so, too: then it has read everything.
func (r *reporter) finish(responses <-chan *lrsv3.LoadStatsResponse) {
	if r.terms == nil {
		return
	}
	late := time.AfterFunc(lastWords, func() { r.cancel(errUnread) })
	defer late.Stop()
	r.report()
	_ = r.stream.CloseSend()
	drain(responses)
}
