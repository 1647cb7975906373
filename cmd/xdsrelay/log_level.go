package main

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/config"
)

// newLogLevelCmd shows and changes the log levels of a node.
func (a *app) newLogLevelCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log-level [[PART=]LEVEL ...]",
		Short: "Show or change the log levels of a node",
		Long: "Show the log levels of a node, or change them: LEVEL alone is for all parts without a\n" +
			"level of their own. Levels are debug, info, warn and error. A change lasts until the\n" +
			"configuration changes or the node exits.",
		Example: "  xdsrelay log-level\n" +
			"  xdsrelay log-level upstream=debug\n" +
			"  xdsrelay log-level warn clients=info",
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
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
		if err := out.check(); err != nil {
			return err
		}
		levels, method, path := map[string]string{}, http.MethodGet, "/log"
		if len(orders) == 0 {
			orders = append(orders, nil)
		} else {
			method, path = http.MethodPost, "/log/level"
		}
		for _, order := range orders {
			clear(levels)
			if _, _, err := node.call(cmd.Context(), method, path, order, nil, &levels); err != nil {
				return err
			}
		}
		return out.print(a.stdout, view{
			data:  levels,
			names: slices.DeleteFunc(slices.Sorted(maps.Keys(levels)), func(part string) bool { return part == "" }),
			table: func(w io.Writer, _ bool) { admin.WriteLevels(w, levels) },
		})
	}
	return cmd
}

// levelOrder returns the query that sets a level, from PART=LEVEL or LEVEL.
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
