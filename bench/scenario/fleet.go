package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"xdsrelay/bench/certs"
	"xdsrelay/bench/content"
	"xdsrelay/bench/control"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/report"
)

// fleetChild is the process of all clients.
type fleetChild struct {
	child *control.Child
	log   *logCount
}

// startFleet starts the process of a number of clients, which do not connect
// yet.
func startFleet(ctx context.Context, p Programs, t Target, setup report.Setup, clients int, secured *certs.Files, addrs []string) (*fleetChild, error) {
	f := &fleetChild{log: &logCount{}}
	cmd := p.Child(ctx, fleetArgs(t, setup, clients, secured, addrs)...)
	cmd.Stderr = f.log
	var err error
	if f.child, err = control.Start(ctx, cmd); err != nil {
		return nil, f.explain(err)
	}
	return f, nil
}

// With more clients than crowd, only so many connections are begun per second: a control plane
// that is asked for thousands of keys at once takes longer to answer than clients wait for names
// until they count as missing (C12).
const crowd, crowdRate = 20_000, 100

// fleetArgs start the clients of a setup.
func fleetArgs(t Target, s report.Setup, clients int, secured *certs.Files, addrs []string) []string {
	spec := specOf(s)
	args := []string{
		"fleet", "--control", "--" + s.Variant,
		"--addr", strings.Join(addrs, ","),
		"--clients", strconv.Itoa(clients),
		"--streams-per-connection", strconv.Itoa(max(s.PerConnection, 1)),
		"--keys", strconv.Itoa(spec.Keys),
		"--resources", strconv.Itoa(spec.Clusters),
		"--listeners", strconv.Itoa(spec.Listeners),
		"--size", strconv.Itoa(spec.Size),
		"--endpoint-size", strconv.Itoa(spec.EndpointSize),
		"--equal=" + strconv.FormatBool(spec.Equal),
		"--slow-rate", "4000", // it is waited for them to get everything once
		"--slow", strconv.FormatFloat(s.Slow, 'g', -1, 64),
		"--stuck", strconv.FormatFloat(s.Stuck, 'g', -1, 64),
	}
	if s.Types != "" {
		args = append(args, "--types", s.Types)
	}
	if s.Clients > crowd {
		args = append(args, "--connect-rate", strconv.Itoa(crowdRate))
	}
	if secured != nil {
		args = append(args, "--tls-ca", secured.CA, "--tls-ca-key", secured.CAKey, "--tls-tickets="+strconv.FormatBool(s.TLS == report.MTLSTickets))
	}
	if t.kind == kindTCP {
		args = append(args, "--tcp")
	}
	return args
}

// pid is the process's id.
func (f *fleetChild) pid() int { return f.child.Pid() }

// close ends the clients.
func (f *fleetChild) close() { _ = f.child.Close() }

// explain adds what the clients logged last to an error.
func (f *fleetChild) explain(err error) error {
	if log := f.log.last(); err != nil && log != "" {
		return fmt.Errorf("%w; the log of the fleet ends with:\n%s", err, log)
	}
	return err
}

// errMissing says that some clients do not have what they wait for.
var errMissing = errors.New("not all clients have what they wait for")

// reached is how long it took all clients to get somewhere, or an error that is
// errMissing.
func (f *fleetChild) reached(r fleet.Reached, err error) (time.Duration, error) {
	if err != nil {
		return 0, f.explain(err)
	}
	if !r.Done {
		return r.Elapsed, fmt.Errorf("%w after %v: %d of %d are connected and %d synced; %s",
			errMissing, r.Elapsed.Round(time.Millisecond), r.Connected, r.Clients, r.Synced, r.Waiting)
	}
	return r.Elapsed, nil
}

// connect lets all clients connect, and waits until they hold everything.
func (f *fleetChild) connect(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	var r fleet.Reached
	err := f.child.Call(ctx, fleet.OrderConnect, fleet.ConnectArgs{Timeout: timeout}, &r)
	return f.reached(r, err)
}

// expect announces changes, so that those count, too, that clients never see
// because later ones overtake them.
func (f *fleetChild) expect(ctx context.Context, s drive.Schedule, plan drive.Planned) error {
	return f.explain(f.child.Call(ctx, fleet.OrderExpect, fleet.Plan{
		First: plan.First.Revision, At: plan.First.At, Interval: s.Interval, Count: s.Count, Change: s.Change,
	}, nil))
}

// await waits until the clients have a change.
func (f *fleetChild) await(ctx context.Context, revision uint64, change *content.Change, timeout time.Duration) (time.Duration, error) {
	var r fleet.Reached
	err := f.child.Call(ctx, fleet.OrderAwait, fleet.AwaitArgs{Revision: revision, Change: change, Timeout: timeout}, &r)
	return f.reached(r, err)
}

// storm lets clients reconnect, and waits until all hold everything.
func (f *fleetChild) storm(ctx context.Context, s fleet.Storm, timeout time.Duration) (time.Duration, error) {
	var r fleet.Stormed
	err := f.child.Call(ctx, fleet.OrderStorm, fleet.StormArgs{Storm: s, Timeout: timeout}, &r)
	return f.reached(r.Reached, err)
}

// react makes clients react to a revision.
func (f *fleetChild) react(ctx context.Context, r fleet.Reaction) error {
	return f.explain(f.child.Call(ctx, fleet.OrderReact, r, nil))
}

// report makes clients send load reports.
func (f *fleetChild) report(ctx context.Context, r fleet.Reports) error {
	return f.explain(f.child.Call(ctx, fleet.OrderReport, r, nil))
}

// exposure is which clients have received what they react to, and how many of them early.
func (f *fleetChild) exposure(ctx context.Context, early time.Duration) (e fleet.Exposure, err error) {
	err = f.child.Call(ctx, fleet.OrderExposure, fleet.ExposureArgs{Early: early}, &e)
	return e, f.explain(err)
}

// reset begins counts and distributions anew.
func (f *fleetChild) reset(ctx context.Context) error {
	return f.explain(f.child.Call(ctx, fleet.OrderReset, nil, nil))
}

// stats is what the clients have seen.
func (f *fleetChild) stats(ctx context.Context) (fleet.Stats, error) {
	var s fleet.Stats
	err := f.child.Call(ctx, fleet.OrderStats, nil, &s)
	return s, f.explain(err)
}

// trafficBetween is what clients received and answered between two moments.
func trafficBetween(from, to *fleet.Stats) report.Traffic {
	return report.Traffic{
		Responses: to.Responses - from.Responses,
		Resources: to.Resources - from.Resources,
		Resent:    to.Resent - from.Resent,
		Bytes:     to.WireIn - from.WireIn,
		Sent:      to.WireOut - from.WireOut,
		ACKs:      to.ACKs - from.ACKs,
		NACKs:     to.NACKs - from.NACKs,
	}
}

// violationsOf are those for a report.
func violationsOf(s *fleet.Stats) map[string]report.Violation {
	out := make(map[string]report.Violation, len(s.Violations))
	for kind, v := range s.Violations {
		out[string(kind)] = report.Violation(v)
	}
	return out
}

// endsOf are the connections and streams that ended, for a report.
func endsOf(s *fleet.Stats) map[string]int64 {
	out := make(map[string]int64, len(s.Ends))
	for how, e := range s.Ends {
		out[how] = e.Count
	}
	return out
}

// latencyOf is a distribution for a report; nil if it is empty.
func latencyOf(l fleet.Latency) (*report.Latency, error) {
	if l.Count == 0 {
		return nil, nil
	}
	out := &report.Latency{Count: l.Count, Mean: l.Mean, P50: l.P50, P90: l.P90, P99: l.P99, P999: l.P999, Max: l.Max}
	h, err := l.Decode()
	if err != nil {
		return nil, err
	}
	out.Curve = curveOf(h)
	return out, nil
}

// curveOf takes a histogram of microseconds at the percentiles of reports.
func curveOf(h *hdrhistogram.Histogram) []report.Point {
	var curve []report.Point
	for _, p := range report.Percentiles() {
		curve = append(curve, report.Point{Percentile: p, Value: float64(h.ValueAtPercentile(p)) / 1000})
	}
	return curve
}
