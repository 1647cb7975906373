package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// newNodesCmd shows the nodes.
func (a *app) newNodesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes of a tier",
		Long: "Show the nodes of a tier: the state of each node, its clients and their streams. A * in\n" +
			"the column SELF marks the node that answered. Below the table are the warnings, as in\n" +
			"'xdsrelay status'.",
		Example: "  xdsrelay nodes\n" +
			"  xdsrelay nodes --admin 127.0.0.1:19010 -o wide",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var all admin.NodesNow
		raw, _, err := node.call(cmd.Context(), http.MethodGet, "/tier/nodes", nil, nil, &all)
		if err != nil {
			return err
		}
		return out.print(a.stdout, view{
			data:  raw,
			names: namesOf(all.Nodes, func(n *ops.LiveNode) string { return n.Name }),
			table: func(w io.Writer, wide bool) { admin.WriteNodes(w, all, wide, time.Now()) },
		})
	})
	return cmd
}

// newKeysCmd shows the keys of all nodes.
func (a *app) newKeysCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys [KEY]",
		Short: "Show the aggregation keys on all nodes of a tier",
		Long: "Show the aggregation keys on all nodes of a tier. The owner of a key holds its stream\n" +
			"to the control plane; a follower gets the key from the owner. NOTES shows problems,\n" +
			"such as removals that the removal guard holds back.",
		Example: "  xdsrelay keys\n" +
			"  xdsrelay keys shop/eu -o wide",
		Args: atMostOne("KEY"),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		key := ""
		if len(args) > 0 {
			key = args[0]
		}
		all, err := node.keys(cmd.Context(), key)
		if err != nil {
			return err
		}
		if err := out.print(a.stdout, view{
			data:  all,
			names: namesOf(all.Keys, func(k *ops.Key) string { return k.Key }),
			table: func(w io.Writer, wide bool) { admin.WriteKeys(w, all, wide) },
		}); err != nil || out.isData() {
			return err
		}
		silentLines(a.stderr, all.Silent)
		return nil
	})
	return cmd
}

// keys returns the keys of the tier, or one of them.
func (r *remote) keys(ctx context.Context, key string) (all ops.Keys, err error) {
	if key == "" {
		_, err = r.get(ctx, "/api/v1/keys", nil, &all)
		return all, err
	}
	query := url.Values{ops.ParamKey: {key}}
	if _, err = r.get(ctx, "/api/v1/keys", query, &all); err != nil || len(all.Keys) > 0 {
		return all, err
	}
	_, why, err := r.ask(ctx, http.MethodGet, "/tier/keys", query, nil, false) // suggests similar keys
	if err == nil {
		err = errors.New(strings.TrimSpace(why))
	}
	return all, err
}
