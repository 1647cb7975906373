package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"xdsrelay/relay/bootstrap"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdsget"
)

// clientFlags say which client to be, and what to ask of which server.
type clientFlags struct {
	server, compare       string
	tls, compareTLS       bootstrap.TLS
	variant               string
	perType, references   bool
	node                  clientNode
	nack                  []string
	watch                 bool
	timeout, forTime      time.Duration
	want                  []xdsget.Ref
	rejections            map[string]string // by type URL
	clientTLS, compareWay *serverTLS
}

// The errors of a client whose output says what is wrong.
var (
	errIncomplete = errors.New("a resource is missing or was rejected")
	errUnequal    = errors.New("the servers differ")
)

// newClientCmd is an xDS client.
func (a *app) newClientCmd() *cobra.Command {
	f := clientFlags{node: clientNode{id: "xdsrelay-client"}}
	cmd := &cobra.Command{
		Use:   "client [RESOURCE...]",
		Short: "Get the configuration of a client from a relay or a control plane",
		Long: "Connect to an xDS server as a client with a certain Node, and show the resources that\n" +
			"the server sends. The server is a relay or any control plane. The command sends ACKs as\n" +
			"an Envoy does; the relay lists it as a client while it runs.\n\n" +
			"RESOURCE is what to subscribe to:\n\n" +
			"  CDS                     all resources of a type: a name like CDS, or a type URL\n" +
			"  EDS/web                 the resource of a type with a name\n" +
			"  xdstp://…               the resource, or the glob, with a structured name\n\n" +
			"Without RESOURCE, get what an Envoy gets: all clusters and listeners, and the endpoints,\n" +
			"routes, secrets and extensions that they refer to. --references follows the references\n" +
			"of a RESOURCE, too: LDS/NAME --references gets what a gRPC client for xds:///NAME gets.\n" +
			"It does not follow references to other servers, or to files.\n\n" +
			"The command waits until all resources have arrived, or until --timeout. A resource is\n" +
			"missing if the server reports that it does not exist, or does not send it in time. With\n" +
			"--watch, print each update instead of all resources, and connect again when the stream\n" +
			"ends.\n\n" +
			"--compare gets the same from a second server, normally the control plane, and prints the\n" +
			"differences. Versions may differ. Resources that differ because an update is on its way\n" +
			"have two seconds to arrive.\n\n" +
			"--nack rejects all responses of a type, for example to try an alert: --nack CDS=reason.\n" +
			"Use a --node-id of its own: the relay shows the rejection as that of the client.\n\n" +
			"Secrets in resources are redacted.",
		Example: "  xdsrelay client --node-id web-1 --node-cluster web\n" +
			"  xdsrelay client --node-file envoy.yaml -o yaml\n" +
			"  xdsrelay client LDS/svc --references --node-cluster web\n" +
			"  xdsrelay client --watch --node-cluster web\n" +
			"  xdsrelay client --node-file envoy.yaml --compare control-plane.example:18000",
	}
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", config.Default().Listener.Address, "xDS server, as `HOST:PORT` or unix:PATH")
	addTLS(flags, "", "", &f.tls)
	addServerName(flags, "", "", &f.tls)
	flags.StringVar(&f.variant, "variant", "delta", variantUsage)
	flags.BoolVar(&f.perType, "per-type", false, "use one stream per type, each on the service of the type, instead of an aggregated stream (ADS)")
	flags.BoolVar(&f.references, "references", false, "also get the resources that resources refer to; always without RESOURCE")
	addNode(flags, &f.node.id, &f.node.cluster, &f.node.region, &f.node.zone, &f.node.subZone)
	flags.StringVar(&f.node.file, "node-file", "", nodeFileUsage)
	flags.StringVar(&f.node.metadata, "node-metadata", "", "metadata of the Node, as a `TEXT` in JSON or YAML")
	flags.StringArrayVar(&f.nack, "nack", nil, "reject responses of a `TYPE[=REASON]`; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, timeoutUsage)
	flags.BoolVarP(&f.watch, "watch", "w", false, watchUsage)
	flags.DurationVar(&f.forTime, "for", 0, forUsage)
	flags.StringVar(&f.compare, "compare", "", "compare with a second xDS server, as `HOST:PORT` or unix:PATH")
	addTLS(flags, "compare-", " for --compare", &f.compareTLS)
	addServerName(flags, "compare-", " for --compare", &f.compareTLS)
	cmd.MarkFlagsMutuallyExclusive("watch", "compare")
	cmd.MarkFlagsMutuallyExclusive("watch", "timeout")
	cmd.MarkFlagsMutuallyExclusive("nack", "compare")
	out := addOutput(cmd, asTable)
	exitCodes(cmd, "all resources arrived; with --compare, both servers sent the same",
		"a resource is missing or was rejected, the servers differ, or a server does not answer", usuallyWrong)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(out.check(), f.read(cmd, args)); err != nil {
			return err
		}
		switch {
		case f.compare != "":
			return a.compareServers(cmd.Context(), &f, out)
		case f.watch:
			return a.watchClient(cmd.Context(), &f, out)
		}
		return a.getOnce(cmd.Context(), &f, out)
	})
	return cmd
}

// read checks the flags and arguments, and reads the files.
func (f *clientFlags) read(cmd *cobra.Command, args []string) error {
	compares := f.compare != ""
	switch {
	case cmd.Flags().Changed("for") && !f.watch:
		return usageError{errors.New("--for needs --watch; --timeout limits the time until all resources arrive")}
	case f.forTime < 0:
		return usageError{fmt.Errorf("--for: got %s, expected at least 0", f.forTime)}
	case f.timeout <= 0:
		return usageError{fmt.Errorf("--timeout: got %s, expected more than 0", f.timeout)}
	case !compares && f.compareTLS != bootstrap.TLS{}:
		return usageError{errors.New("--compare-tls, --compare-ca, --compare-cert, --compare-cert-key and --compare-server-name need --compare")}
	}
	err := errors.Join(checkVariant(f.variant), checkServer("--server", f.server), f.readWant(args), f.readNack(), f.node.read(cmd.Flags()))
	if compares {
		err = errors.Join(err, checkServer("--compare", f.compare))
	}
	if err != nil {
		return err
	}
	if f.clientTLS, err = readServerTLS("", &f.tls); err == nil && compares {
		f.compareWay, err = readServerTLS("compare-", &f.compareTLS)
	}
	return err
}

// readWant parses the arguments.
func (f *clientFlags) readWant(args []string) error {
	f.want = nil
	for _, text := range args {
		r, err := xdsget.ParseRef(text)
		if err != nil {
			return usageError{fmt.Errorf("RESOURCE: %w", err)}
		}
		f.want = append(f.want, r)
	}
	if len(args) == 0 {
		f.want, f.references = xdsget.EnvoyRefs(), true
	}
	return nil
}

// readNack parses the values of --nack.
func (f *clientFlags) readNack() error {
	f.rejections = make(map[string]string)
	for _, text := range f.nack {
		name, reason, given := strings.Cut(text, "=")
		url := ops.TypeURL(name)
		switch {
		case url == "":
			return usageError{fmt.Errorf("--nack: got %q, expected a type URL, its last part, or a name like CDS, and optionally =REASON", text)}
		case given && reason == "":
			return usageError{fmt.Errorf("--nack: the reason in %q is empty", text)}
		case !given:
			reason = "rejected on demand by xdsrelay client --nack"
		}
		f.rejections[url] = reason
	}
	return nil
}

// checkServer returns an error about the address of a server.
func checkServer(flag, address string) error {
	if path, ok := strings.CutPrefix(address, "unix:"); ok && path != "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.ContainsAny(address, "/@?# ") {
		return usageError{fmt.Errorf("%s: got %q, expected host:port, like %s, or unix:PATH", flag, address, config.Default().Listener.Address)}
	}
	return nil
}

// start starts a session with one of the servers.
func (a *app) startSession(f *clientFlags, address string, way *serverTLS, notify func(xdsget.Event)) (*xdsget.Session, error) {
	cfg := xdsget.Config{
		Addr: address, Delta: f.variant == "delta", PerType: f.perType, Node: f.node.node, Want: f.want, References: f.references,
		Nack: f.rejections, TLS: way.client, Notify: notify,
	}
	if a.dial != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return a.dial(ctx, "tcp", address)
		}))
	}
	s, err := xdsget.Start(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}
