package load

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
)

// Outlet is the upstream side of an account. One goroutine uses it.
type Outlet struct{ account *account }

// Key is the aggregation key.
func (o *Outlet) Key() aggregation.Key { return o.account.key }

// Node is what the relay says it is, towards the origin (K4). It must not be
// changed.
func (o *Outlet) Node() *corev3.Node { return o.account.node }

// Ask passes on what the origin wants to be told, to the clients of now and of
// later. Terms that are already in force are not passed on again. A response
// without a usable interval is an error and changes nothing.
func (o *Outlet) Ask(rsp *lrsv3.LoadStatsResponse) (*Terms, error) {
	terms, err := newTerms(rsp)
	if err != nil {
		return nil, err
	}
	a := o.account
	a.mu.Lock()
	now := a.terms
	known := now != nil && a.refusal == nil && proto.Equal(now.Response, terms.Response)
	a.mu.Unlock()
	if known {
		return now, nil
	}
	a.set(terms, nil)
	return terms, nil
}

// Refuse says that the origin takes no reports: what was added up is dropped, and
// the clients are sent away with err, until the origin asks after all.
func (o *Outlet) Refuse(err error) {
	a := o.account
	a.mu.Lock()
	a.sums.clear()
	a.mu.Unlock()
	a.set(nil, err)
}

// maxMessage is how large a request may be, in bytes: gRPC servers take 4 MiB by
// default.
const maxMessage = 3 << 20

// Take returns what is to be reported now, in as few requests as a server can
// take. There is at least one, which says nothing where there is nothing to say.
func (o *Outlet) Take() []*lrsv3.LoadStatsRequest {
	a := o.account
	a.mu.Lock()
	a.taken = time.Now()
	stats := a.sums.take(a.taken, a.terms)
	a.mu.Unlock()
	return pack(stats, maxMessage)
}

// GiveBack returns the requests of the last Take that could not be sent: they are
// part of the next one.
func (o *Outlet) GiveBack(requests []*lrsv3.LoadStatsRequest) {
	a := o.account
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range requests {
		a.sums.giveBack(r.GetClusterStats(), a.taken)
	}
}
