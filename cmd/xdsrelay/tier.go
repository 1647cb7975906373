package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// newMembersCmd shows the nodes.
func (a *app) newMembersCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Show the nodes of a running tier",
		Long: "Show the nodes of a tier: whether they take part and answer, how many streams of\n" +
			"clients they have, and where other nodes reach them. Below that stands what is wrong\n" +
			"with them, as with 'status': since when, and why.",
		Example: "  xdsrelay members\n" +
			"  xdsrelay members --admin 127.0.0.1:19010 --json",
		Args: cobra.NoArgs,
	}
	node := a.addRemote(cmd)
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		return node.print(cmd.Context(), http.MethodGet, "/tier/members", nil, nil)
	})
	return cmd
}

// newKeysCmd shows the keys of all nodes.
func (a *app) newKeysCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys [KEY]",
		Short: "Show the aggregation keys on all nodes of a running tier",
		Long: "Show the aggregation keys on all nodes of a tier: which node owns a key and so has\n" +
			"its stream to the origin, from where each other node gets it, and what an operator\n" +
			"should look at, such as removals that are held back.",
		Example: "  xdsrelay keys\n" +
			"  xdsrelay keys shop/eu",
		Args: atMostOne("KEY"),
	}
	node := a.addRemote(cmd)
	a.completeKeys(cmd, node)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		query := url.Values{}
		if len(args) > 0 {
			query.Set("key", args[0])
		}
		return node.print(cmd.Context(), http.MethodGet, "/tier/keys", query, nil)
	}
	return cmd
}

// newReleaseCmd lets an origin remove what was held back.
func (a *app) newReleaseCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release KEY",
		Short: "Do the removals of a key that are held back",
		Long: "Do the removals of a key that are held back because an origin has removed\n" +
			"suspiciously much (removal_guard.max_percent), on all nodes of the tier. 'keys'\n" +
			"shows which keys have such.",
		Example: "  xdsrelay release shop/eu",
		Args:    one("KEY", keysHint),
	}
	node := a.addRemote(cmd)
	a.completeKeys(cmd, node)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		return node.print(cmd.Context(), http.MethodPost, "/release", url.Values{"key": args}, nil)
	}
	return cmd
}

// newDrainCmd ends a node in order.
func (a *app) newDrainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Make a running node hand over its keys, send its clients away and end",
		Long: "Make a running node leave its tier, hand its keys over to the other nodes, send its\n" +
			"clients away over the drain time, and end, as SIGTERM does. The command does not\n" +
			"wait for that.",
		Args: cobra.NoArgs,
	}
	node := a.addRemote(cmd)
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		return node.print(cmd.Context(), http.MethodPost, "/drain", nil, nil)
	})
	return cmd
}
