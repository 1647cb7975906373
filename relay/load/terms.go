package load

import (
	"errors"
	"fmt"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// minInterval is the shortest time between two reports. The protocol knows no
// bound, but some clients cannot cope with 0, and it would busy all others.
const minInterval = 100 * time.Millisecond

// Terms are what the origin wants to be told. They are never changed.
type Terms struct {
	// Response is the origin's own, unknown fields included, with an interval
	// that clients can keep. It must not be changed.
	Response *lrsv3.LoadStatsResponse
	// Interval is the time between two reports, at least 100 ms.
	Interval time.Duration

	all       bool
	endpoints bool
	asked     map[string]struct{} // unless all
}

// newTerms reads a response of the origin, which it does not change.
func newTerms(rsp *lrsv3.LoadStatsResponse) (*Terms, error) {
	d := rsp.GetLoadReportingInterval()
	if d == nil {
		return nil, errors.New("a load stats response has no load_reporting_interval")
	}
	if err := d.CheckValid(); err != nil {
		return nil, fmt.Errorf("load_reporting_interval of a load stats response: %w", err)
	}
	t := &Terms{Response: rsp, Interval: d.AsDuration(), all: rsp.GetSendAllClusters(), endpoints: rsp.GetReportEndpointGranularity()}
	if t.Interval < minInterval {
		t.Interval = minInterval
		t.Response = proto.CloneOf(rsp)
		t.Response.LoadReportingInterval = durationpb.New(minInterval)
	}
	if !t.all {
		t.asked = make(map[string]struct{}, len(rsp.GetClusters()))
		for _, c := range rsp.GetClusters() {
			t.asked[c] = struct{}{}
		}
	}
	return t, nil
}

// wants reports whether the origin asks for a cluster. Before it has said
// anything, it may ask for any.
func (t *Terms) wants(cluster string) bool {
	if t == nil || t.all {
		return true
	}
	_, ok := t.asked[cluster]
	return ok
}

// wantsEndpoints reports whether the origin asks for single endpoints.
func (t *Terms) wantsEndpoints() bool { return t == nil || t.endpoints }
