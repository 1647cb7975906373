package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// orderFlags say which clients or nodes an order is about.
type orderFlags struct {
	key, node, typ string
	all, dryRun    bool
}

const (
	dryRunUsage = "show what would happen, and change nothing"
	orderNotes  = "CLIENT is a whole node ID. If several clients have it, the command changes nothing and lists\n" +
		"them; narrow it down with --key or --node, or order it for all of them with --all. Any node\n" +
		"can be asked: it sends the order to the nodes of the clients. Between nodes, that requires\n" +
		"tier.peer.token_file, or tier.peer.tls with client certificates. The command needs the\n" +
		"permission of an operator, and each node that carries it out logs it."
)

// The errors of orders that not all nodes have carried out.
var errPartly = errors.New("not all nodes of the tier have carried out the order")

// newKickCmd closes the connection of a client.
func (a *app) newKickCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kick CLIENT",
		Short: "Close the connection of a client, so that it reconnects",
		Long: "Close the connection of a client: the node sends GOAWAY, ends the streams with the status\n" +
			"UNAVAILABLE, and closes the connection 5s later. The client keeps its configuration and\n" +
			"reconnects, possibly to another node. A delta client resumes with what it has; others\n" +
			"get everything again. All clients that share the connection reconnect, too: the answer\n" +
			"lists them.\n\n" + orderNotes,
		Example: "  xdsrelay kick envoy-7 --dry-run\n" +
			"  xdsrelay kick envoy-7\n" +
			"  xdsrelay kick web --key shop/eu --all",
	}
	return a.clientOrder(cmd, ops.OrderKick)
}

// newResendCmd sends a client everything again.
func (a *app) newResendCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resend CLIENT",
		Short: "Send a client all resources of its subscriptions again",
		Long: "Send a client all resources of its subscriptions again, with new nonces and the same\n" +
			"versions, as if it had subscribed again. A type that is held after a NACK is resent, too;\n" +
			"a type with an unanswered response is resent after the answer. The stream stays open, and\n" +
			"other clients get nothing. A polling client gets what is newest with its next poll.\n\n" + orderNotes,
		Example: "  xdsrelay resend envoy-7\n" +
			"  xdsrelay resend envoy-7 --type CDS",
	}
	return a.clientOrder(cmd, ops.OrderResend)
}

// clientOrder completes the command of an order about clients.
func (a *app) clientOrder(cmd *cobra.Command, do string) *cobra.Command {
	var f orderFlags
	cmd.Args = one("CLIENT", clientsHint)
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "select by the aggregation `KEY`")
	flags.StringVar(&f.node, "node", "", nodeUsage)
	if do == ops.OrderResend {
		flags.StringVar(&f.typ, "type", "", typeUsage)
	}
	flags.BoolVar(&f.all, "all", false, "all clients with this node ID")
	flags.BoolVar(&f.dryRun, "dry-run", false, dryRunUsage)
	exitCodes(cmd, "the order was carried out", "no client or several clients have this name, or not all nodes have carried out the order", usuallyWrong)
	a.completeNames(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(out.check(), checkType(f.typ)); err != nil {
			return err
		}
		query := f.query()
		query.Set("client", args[0])
		var done ops.Ordered
		raw, _, err := node.call(cmd.Context(), http.MethodPost, "/"+do, query, nil, &done)
		if err != nil {
			return err
		}
		if err := out.print(a.stdout, view{
			data:  raw,
			names: namesOf(done.Clients, func(c *ops.OrderedClient) string { return c.ID }),
			table: text(admin.OrderText(&done)),
		}); err != nil {
			return err
		}
		return a.partly(out, done.Silent, len(done.Clients) > 0 && !f.all)
	})
	return cmd
}

func (f *orderFlags) query() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{"key": f.key, "node": f.node, "type": f.typ} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if f.all {
		v.Set(ops.ParamAll, "true")
	}
	if f.dryRun {
		v.Set(ops.ParamDryRun, "true")
	}
	return v
}

// partly names the nodes that did not answer. It is an error unless the order is complete without
// them.
func (a *app) partly(out *output, silent []ops.Silent, complete bool) error {
	if !out.isData() {
		fmt.Fprint(a.stderr, admin.UnorderedText(silent))
	}
	if len(silent) > 0 && !complete {
		return errPartly
	}
	return nil
}

// newReconnectCmd makes nodes retry their control planes.
func (a *app) newReconnectCmd() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use:   "reconnect",
		Short: "Make nodes retry their control planes now",
		Long: "Make nodes retry their control planes now. While a control plane is unreachable, the\n" +
			"backoff between attempts grows up to backoff.max of the upstream; this command ends the\n" +
			"current backoff and resets it. Working streams stay open. The command is about the node\n" +
			"that --admin names, the node that --node names, or with --all-nodes about all; nodes\n" +
			"accept orders of other nodes with tier.peer.token_file, or tier.peer.tls with client\n" +
			"certificates. 'xdsrelay status' and /debug/origin on the admin port show when the next\n" +
			"attempt is due.",
		Example: "  xdsrelay reconnect\n" +
			"  xdsrelay reconnect --all-nodes",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", nodeUsage)
	flags.BoolVar(&f.all, "all-nodes", false, "all nodes of the tier, instead of one")
	flags.BoolVar(&f.dryRun, "dry-run", false, dryRunUsage)
	cmd.MarkFlagsMutuallyExclusive("node", "all-nodes")
	exitCodes(cmd, "the nodes retry", "the node has no control plane, or not all nodes have carried out the order", usuallyWrong)
	a.completeFlags(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var done ops.Reconnecting
		raw, _, err := node.call(cmd.Context(), http.MethodPost, "/reconnect", f.query(), nil, &done)
		if err != nil {
			return err
		}
		if err := out.print(a.stdout, view{
			data:  raw,
			names: namesOf(done.Nodes, func(n *ops.ReconnectingNode) string { return n.Node }),
			table: text(admin.ReconnectText(&done)),
		}); err != nil {
			return err
		}
		return a.partly(out, done.Silent, false)
	})
	return cmd
}
