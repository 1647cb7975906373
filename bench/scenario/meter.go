package scenario

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/report"
)

// reading is everything that counts up, at one moment.
type reading struct {
	at                    time.Time
	target, origin, fleet report.Use
	clients               fleet.Stats
	server                drive.Stats
	tier                  report.Tier
	logLines, logBytes    int
}

// read reads everything.
func (b *bed) read(ctx context.Context) (reading, error) {
	r := reading{at: time.Now()}
	var err error
	if r.target, err = b.use(); err != nil {
		return r, err
	}
	if len(b.nodes) > 0 {
		if r.origin, err = useOf(b.server.Pid()); err != nil {
			return r, err
		}
	}
	if r.fleet, err = useOf(b.fleet.pid()); err != nil {
		return r, err
	}
	if b.tier != nil {
		if r.tier, err = b.tier.read(ctx); err != nil {
			return r, err
		}
	}
	r.logLines, r.logBytes = b.log()
	if r.server, err = b.stats(ctx); err != nil {
		return r, err
	}
	r.clients, err = b.fleet.stats(ctx)
	return r, err
}

// refused is how the fleet calls the end of a stream for which there was no room.
var refused = codes.ResourceExhausted.String()

// between says what happened between two readings.
func between(from, to *reading) report.Step {
	return report.Step{
		Seconds: to.at.Sub(from.at).Seconds(),
		Target:  since(to.target, from.target),
		Origin:  since(to.origin, from.origin),
		Fleet:   since(to.fleet, from.fleet),
		Synced:  int(to.clients.Synced),
		Clients: trafficBetween(&from.clients, &to.clients),
		Load: report.Load{
			Streams:   to.server.StreamsTotal - from.server.StreamsTotal,
			Open:      to.server.Streams,
			Requests:  to.server.Requests - from.server.Requests,
			Responses: to.server.Responses - from.server.Responses,
			BytesIn:   to.server.BytesIn - from.server.BytesIn,
			BytesOut:  to.server.BytesOut - from.server.BytesOut,
		},
		Tier: report.Tier{
			Calls:    to.tier.Calls - from.tier.Calls,
			Scripted: to.tier.Scripted - from.tier.Scripted,
			RedisIn:  to.tier.RedisIn - from.tier.RedisIn,
			RedisOut: to.tier.RedisOut - from.tier.RedisOut,
			Peers:    to.tier.Peers - from.tier.Peers,
		},
		Refused:  to.clients.Ends[refused].Count - from.clients.Ends[refused].Count,
		LogLines: to.logLines - from.logLines,
		LogBytes: to.logBytes - from.logBytes,
	}
}

// When a target is at rest: it uses little of a core, or it has had its time.
const (
	restShare = 0.03
	restEach  = 200 * time.Millisecond
	restMost  = 4 * time.Second
)

// rest waits until the target has done what it had to, for a while at most: ACKs
// may still be on their way when the last client has what it waits for.
func (b *bed) rest(ctx context.Context) error {
	end := time.Now().Add(restMost)
	before, err := b.use()
	for quiet := 0; err == nil && quiet < 2 && time.Now().Before(end); {
		if err = pause(ctx, restEach); err != nil {
			break
		}
		var now report.Use
		now, err = b.use()
		if since(now, before).CPU <= restShare*restEach.Seconds() {
			quiet++
		} else {
			quiet = 0
		}
		before = now
	}
	return err
}

// restedAfter is how long a target is at rest before its resident memory counts as that at rest.
const restedAfter = 8 * time.Second

// rested returns the resident memory of the target after some seconds at rest, in bytes.
func (b *bed) rested(ctx context.Context) (int64, error) {
	if err := pause(ctx, restedAfter); err != nil {
		return 0, err
	}
	use, err := b.use()
	return use.RSS, err
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
