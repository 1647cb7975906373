// Package rejection counts what a node refuses, rejects or sheds, in one metric: by where in the
// node that happens, and why. Each event is counted once, in the package that decides.
package rejection

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
)

// Metric is the name of the metric.
const Metric = "xdsrelay.rejections"

// Where is what was rejected; a value of the label where.
type Where string

// The values of the label where, by depth.
const (
	Connection    Where = "connection"    // a client's connection, refused or closed
	Stream        Where = "stream"        // a client's stream, refused or ended before it had a request
	Request       Where = "request"       // a request on a stream, which ends the stream
	Poll          Where = "poll"          // a request of a polling client
	Authorization Where = "authorization" // a new client
	Recheck       Where = "recheck"       // a connected client that is no longer authorized
	Client        Where = "client"        // a connected client, shed to free memory
	Peer          Where = "peer"          // a connection or call on the peer port
	Admin         Where = "admin"         // a connection or request on the admin port
)

// All returns the values of the label where.
func All() []string {
	var all []string
	for _, w := range []Where{Connection, Stream, Request, Poll, Authorization, Recheck, Client, Peer, Admin} {
		all = append(all, string(w))
	}
	return all
}

// Rebalanced is the reason for clients that another node has room for.
const Rebalanced = "rebalanced"

// TLS returns the reason for a failed TLS handshake. cause is an identifier, like "expired".
func TLS(cause string) string { return "tls_" + cause }

// Code returns the reason for an error that has nothing but a gRPC code: its name in snake_case.
func Code(code codes.Code) string {
	var b strings.Builder
	for i, r := range code.String() {
		if r >= 'A' && r <= 'Z' && i > 0 && code != codes.OK {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

// Counter counts rejections. All methods are safe for concurrent use.
type Counter struct {
	metric metric.Int64Counter
	labels sync.Map // label → metric.AddOption: made once, since there may be thousands of rejections per second
}

type label struct {
	where  Where
	reason string
}

// New makes a Counter. The counters of one meter count in one metric.
func New(meter metric.Meter) (*Counter, error) {
	m, err := meter.Int64Counter(Metric, metric.WithDescription("Rejections, by what was rejected and why. The reason is the configuration field of a limit, a gRPC code, or a word that docs/reference/metrics.md lists."))
	return &Counter{metric: m}, err
}

// Add counts a rejection.
func (c *Counter) Add(w Where, reason string) { c.add(w, reason, 1) }

// Export makes the counter start at 0: increase() misses the first event of a counter that starts
// at 1.
func (c *Counter) Export(w Where, reason string) { c.add(w, reason, 0) }

func (c *Counter) add(w Where, reason string, n int64) {
	k := label{w, reason}
	option, ok := c.labels.Load(k)
	if !ok {
		set := attribute.NewSet(attribute.String("where", string(w)), attribute.String("reason", reason))
		option, _ = c.labels.LoadOrStore(k, metric.WithAttributeSet(set))
	}
	c.metric.Add(context.Background(), n, option.(metric.AddOption))
}
