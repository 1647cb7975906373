package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

// newReloadCmd makes a node read its configuration again.
func (a *app) newReloadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running node read its configuration again",
		Long: "Make a running node read its configuration again, as SIGHUP does and as happens by\n" +
			"itself when the file changes, and show what became of it. Streams do not end. Where\n" +
			"there is a mistake nothing changes, and the command fails and shows it.",
		Args: cobra.NoArgs,
	}
	node := a.addRemote(cmd)
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		return node.print(cmd.Context(), http.MethodPost, "/config/reload", nil, nil)
	})
	return cmd
}

// newReconnectCmd makes a node try its control planes now.
func (a *app) newReconnectCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reconnect",
		Short: "Make a running node try its control planes now",
		Long: "Make a running node try its control planes now. While a control plane is down, the\n" +
			"pauses between attempts grow to upstream.backoff.max; this ends all of them, and the\n" +
			"next ones are short again. Streams that work stay. The order is for this node alone:\n" +
			"give it to each node of a tier that has lost its control plane. 'status' and\n" +
			"/debug/origin on the admin port show when the next attempt is.",
		Args: cobra.NoArgs,
	}
	node := a.addRemote(cmd)
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		return node.print(cmd.Context(), http.MethodPost, "/reconnect", nil, nil)
	})
	return cmd
}

// newLogCmd shows and changes the levels of a node's log.
func (a *app) newLogCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log [[PART=]LEVEL ...]",
		Short: "Show or change what a running node logs",
		Long: "Show the levels of a running node's log, or change them: of a part, or of all parts\n" +
			"that have no level of their own. What is changed so lasts until the configuration\n" +
			"changes, or the node ends.",
		Example: "  xdsrelay log\n" +
			"  xdsrelay log upstream=debug\n" +
			"  xdsrelay log warn clients=info",
	}
	node := a.addRemote(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var orders []url.Values
		for _, arg := range args {
			order, err := levelOrder(arg)
			if err != nil {
				return usageError{err}
			}
			orders = append(orders, order)
		}
		a.began = true
		for i, order := range orders {
			if i < len(orders)-1 { // the last one shows all
				if _, err := node.order(cmd.Context(), http.MethodPost, "/log/level", order, nil); err != nil {
					return err
				}
				continue
			}
			return node.print(cmd.Context(), http.MethodPost, "/log/level", order, nil)
		}
		return node.print(cmd.Context(), http.MethodGet, "/log", nil, nil)
	}
	return cmd
}

// levelOrder is what sets a level, by PART=LEVEL or LEVEL.
func levelOrder(arg string) (url.Values, error) {
	if !strings.Contains(arg, "=") {
		var all config.Level
		if err := all.UnmarshalText([]byte(arg)); err != nil {
			return nil, fmt.Errorf("got %q, %w", arg, err)
		}
		return url.Values{"level": {arg}}, nil
	}
	part, level, err := config.PartLevel(arg)
	return url.Values{"part": {part}, "level": {strings.ToLower(slog.Level.String(level))}}, err
}
