package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"xdsrelay/bench/control"
	"xdsrelay/bench/fleet"
)

// fleetRun is what the fleet's flags say.
type fleetRun struct {
	cfg        fleet.Config
	sotw       bool
	tls        fleet.TLSFiles
	control    bool
	json       bool
	lasts      time.Duration
	settle     time.Duration
	storm      string
	stormEvery time.Duration
	stormOver  time.Duration
}

// newFleetCmd is the simulated clients.
func (a *app) newFleetCmd() *cobra.Command {
	var r fleetRun
	cmd := &cobra.Command{
		Use:   "fleet --addr HOST:PORT",
		Short: "Be thousands of xDS clients",
		Long: "Connect simulated clients that behave as Envoys do, check their responses, and\n" +
			"measure how long changes take to reach them. The content must be that of\n" +
			"'xdsbench origin', directly or through a relay. If the origin restarts, its\n" +
			"revisions start again, which counts as going back. After --for, clients stop\n" +
			"reconnecting. The command ends with the counts when all clients have what they\n" +
			"requested, or after --settle. An interrupt ends it at once. The exit code is 1\n" +
			"if a client saw a protocol violation, or did not get all it requested.",
		Example: "  xdsbench fleet --addr 127.0.0.1:18000 --clients 5000 --keys 10 --for 1m\n" +
			"  xdsbench fleet --addr 127.0.0.1:18000,127.0.0.1:18001 --sotw --slow 1 --stuck 1\n" +
			"  xdsbench fleet --addr 127.0.0.1:18000 --storm warm --storm-every 10s",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error { return r.run(cmd.Context(), a) }),
	}
	r.addFlags(cmd)
	return cmd
}

func (r *fleetRun) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	c := &r.cfg
	flags.StringSliceVar(&c.Addrs, "addr", nil, "the `ADDR`esses of the servers, over which connections are spread")
	flags.IntVar(&c.Clients, "clients", 1000, "how many clients there are")
	flags.IntVar(&c.FirstClient, "first-client", 0, "the number of the first client")
	flags.IntVar(&c.Content.Keys, "keys", 1, "how many keys the clients are spread over")
	flags.IntVar(&c.Content.Clusters, "resources", 0, "how many clusters each key has; 0 means unknown, and that less is checked")
	flags.IntVar(&c.Content.Listeners, "listeners", 0, "how many listeners each key has")
	flags.IntVar(&c.Content.Size, "size", 0, "the `BYTES` of each cluster, as set for the origin")
	flags.BoolVar(&c.Content.Equal, "equal", false, "all keys have the same resources, as set for the origin")
	flags.IntVar(&c.Content.EndpointSize, "endpoint-size", 0, "the `BYTES` of each endpoint assignment, as set for the origin")
	flags.StringSliceVar(&c.Types, "types", nil, "the types that clients ask for: cds, eds, lds and rds (default those there are)")
	flags.BoolVar(&c.Delta, "delta", true, "use the incremental variant")
	flags.BoolVar(&r.sotw, "sotw", false, "use state of the world")
	flags.BoolVar(&c.PerType, "per-type", false, "use a stream for each type instead of one for all")
	flags.IntVar(&c.StreamsPerConn, "streams-per-connection", 1, "how many clients share a connection")
	flags.BoolVar(&c.Plain, "tcp", false, "read the plain TCP of 'xdsbench floor --tcp'")
	flags.BoolVar(&c.Gzip, "gzip", false, "let servers compress")
	flags.StringVar(&r.tls.CA, "tls-ca", "", "the `FILE` with the servers' certificate authority; encrypts connections")
	flags.StringVar(&r.tls.Cert, "tls-cert", "", "the `FILE` with the clients' certificate")
	flags.StringVar(&r.tls.Key, "tls-key", "", "the `FILE` with the clients' key")
	flags.StringVar(&r.tls.CAKey, "tls-ca-key", "", "the `FILE` with the key of that authority; each connection then shows a certificate of its own")
	flags.BoolVar(&c.Tickets, "tls-tickets", false, "resume TLS sessions when clients reconnect")
	flags.StringVar(&r.tls.Name, "tls-name", "", "the `NAME` that servers have to have; empty means the host of their address")
	flags.Float64Var(&c.ConnectRate, "connect-rate", 0, "how many connections are begun per second; 0 means no bound")
	flags.IntVar(&c.ConnectParallel, "connect-parallel", 64, "how many connections are being made at a time")
	flags.DurationVar(&c.Timeout, "connect-timeout", 10*time.Second, "how long a connection may take to be made")
	flags.Float64Var(&c.Slow, "slow", 0, "the `PERCENT` of clients that read slowly")
	flags.IntVar(&c.SlowRate, "slow-rate", 1000, "how many `BYTES` a second they read")
	flags.Float64Var(&c.Stuck, "stuck", 0, "the `PERCENT` of clients that stop reading once they hold everything")
	flags.Float64Var(&c.Nack, "nack", 0, "the `PERCENT` of clients that reject everything once they hold everything")
	flags.Float64Var(&c.Churn, "churn", 0, "the `PERCENT` of clients that reconnect, or unsubscribe and subscribe again")
	flags.DurationVar(&c.ChurnEvery, "churn-every", 10*time.Second, "how often each of them does")
	flags.BoolVar(&r.control, "control", false, "be a child: take orders as lines of JSON on standard input")
	flags.BoolVar(&r.json, "json", false, "write the counts at the end as JSON")
	flags.DurationVar(&r.lasts, "for", 0, "how long to go on; 0 means until an interrupt")
	flags.DurationVar(&r.settle, "settle", 30*time.Second, "how long clients may take after that to be connected and hold everything again")
	flags.StringVar(&r.storm, "storm", "", "let all clients reconnect: `HOW` is warm, with what they hold, or cold, without")
	flags.DurationVar(&r.stormEvery, "storm-every", 10*time.Second, "how often they do")
	flags.DurationVar(&r.stormOver, "storm-over", 0, "the time over which their connections are cut; 0 means at once")
	cmd.MarkFlagsMutuallyExclusive("delta", "sotw")
	cmd.MarkFlagsMutuallyExclusive("control", "json")
	_ = cmd.MarkFlagRequired("addr") // the flag is there
}

// errUnwell is the end of a fleet that did not get what it should.
var errUnwell = errors.New("not all is well")

// run connects the clients and lets them live until the context ends: as a
// child, or on their own.
func (r *fleetRun) run(ctx context.Context, a *app) error {
	r.cfg.Delta = r.cfg.Delta && !r.sotw
	if r.storm != "" && r.storm != "warm" && r.storm != "cold" {
		return usageError{fmt.Errorf("storm: got %q, expected warm or cold", r.storm)}
	}
	if r.stormEvery <= 0 {
		return usageError{fmt.Errorf("storm every: got %v, expected more than 0", r.stormEvery)}
	}
	if r.settle < 0 {
		return usageError{fmt.Errorf("settle: got %v, expected 0 or more", r.settle)}
	}
	var err error
	if r.cfg.TLS, err = r.tls.Config(); err != nil {
		return usageError{err}
	}
	if r.cfg.Authority, err = r.tls.Authority(); err != nil {
		return usageError{err}
	}
	// Clients hold little, so that a third less memory costs next to nothing.
	debug.SetGCPercent(50)
	f, err := fleet.New(r.cfg)
	if err != nil {
		return usageError{err}
	}
	defer f.Close()
	if r.control {
		return control.Serve(ctx, a.stdin, a.stdout, fleet.Ready{Clients: r.cfg.Clients}, f.Handlers())
	}
	return r.alone(ctx, a, f)
}

// alone runs a fleet that has no parent.
func (r *fleetRun) alone(ctx context.Context, a *app, f *fleet.Fleet) error {
	stop := progress(a.stderr, f)
	reached, err := r.live(ctx, f)
	if err == nil && ctx.Err() == nil {
		// The end of --for may have come at any moment, also within a storm.
		patience, cancel := context.WithTimeout(ctx, r.settle)
		reached = f.Settle(patience)
		cancel()
	}
	stop()
	if err != nil {
		return err
	}
	s := f.Stats()
	if r.json {
		out := json.NewEncoder(a.stdout)
		out.SetIndent("", "  ")
		err = out.Encode(s)
	} else {
		_, err = io.WriteString(a.stdout, s.Table())
	}
	switch {
	case err != nil:
		return err
	case len(s.Violations) > 0:
		return fmt.Errorf("%w: the protocol was broken in %d ways", errUnwell, len(s.Violations))
	case !reached.Done:
		return fmt.Errorf("%w: of %d clients %d are connected and %d hold all they asked for; %s",
			errUnwell, reached.Clients, reached.Connected, reached.Synced, reached.Waiting)
	}
	return nil
}

// live connects the clients, and lets storms come over them, until the time is
// over or ctx ends. It returns how far they got at first.
func (r *fleetRun) live(ctx context.Context, f *fleet.Fleet) (fleet.Reached, error) {
	if r.lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.lasts)
		defer cancel()
	}
	reached, err := f.Connect(ctx, 0, fleet.Synced)
	var storm <-chan time.Time
	if r.storm != "" {
		ticks := time.NewTicker(r.stormEvery)
		defer ticks.Stop()
		storm = ticks.C
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return reached, nil
		case <-storm:
			if ctx.Err() == nil { // both may be ready
				_, err = f.Storm(ctx, fleet.Storm{Versions: r.storm, Over: r.stormOver})
			}
		}
	}
	return reached, err
}

// progress writes a line a second until the function that it returns is called;
// on a terminal, over the last one.
func progress(w io.Writer, f *fleet.Fleet) (stop func()) {
	end := "\n"
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		end = "\x1b[K\r"
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for last := f.Progress(); ; {
			select {
			case <-second.C:
			case <-done:
				if strings.HasSuffix(end, "\r") {
					fmt.Fprintln(w)
				}
				return
			}
			now := f.Progress()
			fmt.Fprint(w, now.Line(&last), end)
			last = now
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
