package fleet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"xdsrelay/bench/certs"
	"xdsrelay/bench/content"
)

// Config says which clients there are and how they behave.
type Config struct {
	// Addrs are the servers, as host:port; connections are spread over them, and
	// go on to the next where one fails. Required.
	Addrs []string
	// Clients is how many there are, spread evenly over the keys. Required.
	Clients int
	// FirstClient is the number of the first client, so that several fleets can
	// be told apart.
	FirstClient int
	// Content is what is served. Without a number of clusters the fleet does not
	// know how much there is and takes what it gets; with one, it knows what
	// responses have to hold, byte for byte.
	Content content.Spec
	// Types are short names: cds, eds, lds, rds. Empty means those that Content
	// has, or all where that is not known.
	Types []string
	// Delta chooses the variant: delta, or state of the world.
	Delta bool
	// PerType gives each type a stream of its own instead of one for all.
	PerType bool
	// StreamsPerConn is how many clients share a connection; 0 means 1.
	StreamsPerConn int
	// TLS encrypts connections; nil means plaintext.
	TLS *tls.Config
	// Authority issues a certificate for each connection; nil means that all show
	// that of TLS.
	Authority *certs.Authority
	// Tickets lets clients that reconnect resume their TLS sessions.
	Tickets bool
	// Gzip lets servers compress.
	Gzip bool
	// Plain goes without HTTP/2: messages follow each other on the connection,
	// each behind gRPC's five bytes. It needs one client per connection and one
	// stream for all types.
	Plain bool

	// ConnectRate is how many connections are begun per second; 0 means no
	// bound. ConnectParallel is how many are being made at a time; 0 means 64.
	ConnectRate     float64
	ConnectParallel int
	// Timeout is how long a connection may take to be made; 0 means 10 s.
	Timeout time.Duration

	// Shares of clients in percent, together 100 at most. Slow ones read no more
	// than SlowRate bytes a second (0 means 1,000). Stuck ones stop reading once
	// they hold everything, Nack ones reject every response from then on, and
	// Churn ones reconnect, or drop half of their subscriptions and come back to
	// them, one time in ChurnEvery (0 means 10 s) each. With several clients to
	// a connection, slow and stuck connections are counted.
	Slow, Stuck, Nack, Churn float64
	SlowRate                 int
	ChurnEvery               time.Duration
}

// complete fills in what is missing and says what is wrong.
func (c *Config) complete() (kindSet, error) {
	orElse(&c.StreamsPerConn, 1)
	orElse(&c.ConnectParallel, 64)
	orElse(&c.Timeout, 10*time.Second)
	orElse(&c.SlowRate, 1000)
	orElse(&c.ChurnEvery, 10*time.Second)
	orElse(&c.Content.Keys, 1)
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Addrs) > 0, "no addresses, expected at least one")
	for _, a := range c.Addrs {
		_, port, err := net.SplitHostPort(a)
		check(err == nil && port != "", "address %q, expected host:port", a)
	}
	check(c.Clients > 0, "%d clients, expected at least 1", c.Clients)
	check(c.FirstClient >= 0, "first client %d, expected 0 or more", c.FirstClient)
	check(c.StreamsPerConn > 0, "%d clients per connection, expected at least 1", c.StreamsPerConn)
	check(!c.Plain || c.StreamsPerConn == 1 && !c.PerType && !c.Gzip, "plain TCP with shared connections, several streams or compression, expected none of these")
	check(c.ConnectRate >= 0, "a connect rate of %g, expected 0 or more", c.ConnectRate)
	check(c.ConnectParallel > 0, "%d connections at a time, expected at least 1", c.ConnectParallel)
	check(c.SlowRate > 0, "a slow rate of %d bytes a second, expected at least 1", c.SlowRate)
	check(c.ChurnEvery > 0, "churn every %v, expected more than 0", c.ChurnEvery)
	total := 0.0
	for _, share := range []struct {
		name string
		of   float64
	}{{"slow", c.Slow}, {"stuck", c.Stuck}, {"nack", c.Nack}, {"churn", c.Churn}} {
		check(share.of >= 0 && share.of <= 100, "a %s share of %g %%, expected 0 to 100", share.name, share.of)
		total += share.of
	}
	check(total <= 100, "shares of %g %% together, expected 100 at most", total)
	if c.Content.Clusters > 0 {
		errs = append(errs, c.Content.Validate())
	}
	if len(c.Types) == 0 {
		c.Types = []string{"cds", "eds", "lds", "rds"}
		if c.Content.Clusters > 0 && c.Content.Listeners == 0 {
			c.Types = c.Types[:2]
		}
	}
	types, err := parseKinds(c.Types)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("fleet: %w", err)
	}
	return types, nil
}

// orElse sets what is zero.
func orElse[T comparable](v *T, missing T) {
	var zero T
	if *v == zero {
		*v = missing
	}
}

// count is how many resources of a type each key has; 0 for not known.
func (c *Config) count(k kind) int {
	if c.Content.Clusters == 0 {
		return 0
	}
	return c.Content.Count(k.info().url)
}
