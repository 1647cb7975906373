package main

import (
	"context"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// completeTime limits how long a node may take to answer while a user waits at a prompt.
const completeTime = time.Second

// mostCompleted limits how many names are suggested.
const mostCompleted = "100"

// completeNames completes the first argument of a command with the names of clients, and its flags.
func (a *app) completeNames(cmd *cobra.Command, node *remote) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		var page ops.Page
		if _, err := node.get(ctx, "/api/v1/clients", url.Values{"prefix": {begun}, "limit": {mostCompleted}}, &page); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, c := range page.Clients {
			if printable(c.Name) != c.Name || printable(c.Key) != c.Key {
				continue // nobody could type it, and the shell would print it
			}
			names = append(names, cobra.CompletionWithDesc(c.Name, string(c.State)+" "+c.Key))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	a.completeFlags(cmd, node)
}

// completeKeys completes the first argument of a command with the keys, and its flags.
func (a *app) completeKeys(cmd *cobra.Command, node *remote) {
	keys := keysOf(node)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return keys(cmd, args, begun)
	}
	a.completeFlags(cmd, node)
}

// completeFlags completes the flags that commands share.
func (a *app) completeFlags(cmd *cobra.Command, node *remote) {
	var states, types []string
	for _, s := range ops.States() {
		states = append(states, string(s))
	}
	states = append(states, string(ops.MissingResource))
	types = append(types, columnOrder...)
	known := map[string]cobra.CompletionFunc{
		"key": keysOf(node), "node": nodesOf(node),
		"state":   cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp),
		"fail-on": cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp),
		"type":    cobra.FixedCompletions(types, cobra.ShellCompDirectiveNoFileComp),
	}
	for name, f := range known {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, f) // the flag is defined
		}
	}
}

func keysOf(node *remote) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		var all ops.Keys
		if _, err := node.get(ctx, "/api/v1/keys", nil, &all); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var keys []cobra.Completion
		for _, k := range all.Keys {
			if printable(k.Key) != k.Key {
				continue
			}
			keys = append(keys, k.Key)
		}
		return keys, cobra.ShellCompDirectiveNoFileComp
	}
}

func nodesOf(node *remote) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		var all ops.Members
		if _, err := node.get(ctx, "/tier/nodes", nil, &all); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, m := range all.Members {
			names = append(names, m.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
