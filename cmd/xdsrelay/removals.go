package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// newRemovalsCmd is about the removal guard.
func (a *app) newRemovalsCmd() *cobra.Command {
	cmd := newParentCmd("removals", "List and approve removals that the removal guard holds back", a.newRemovalsListCmd(), a.newRemovalsApproveCmd())
	cmd.Long = "List and approve removals that the removal guard holds back. The guard acts if a\n" +
		"control plane removes more resources of a key at once than it allows. Clients then keep\n" +
		"the resources until an operator approves the removals, the control plane sends the\n" +
		"resources again, or the hold time ends."
	return cmd
}

// heldRemovals are the removals that one node holds back for a key.
type heldRemovals struct {
	Key       string `json:"key"`
	Node      string `json:"node"`
	Removals  int    `json:"removals"`
	Resources int    `json:"resources"`
}

// newRemovalsListCmd lists held removals.
func (a *app) newRemovalsListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys with held removals",
		Long:    "List the keys with held removals: the number of held removals on each node, and the\nnumber of all resources of the key that the node has, including those.",
		Example: "  xdsrelay removals list",
		Args:    cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		keys, err := node.keys(cmd.Context(), "")
		if err != nil {
			return err
		}
		held := []heldRemovals{}
		for _, k := range keys.Keys {
			for _, n := range k.Nodes {
				if n.HeldRemovals > 0 {
					held = append(held, heldRemovals{k.Key, n.Node, n.HeldRemovals, n.Resources})
				}
			}
		}
		if err := out.print(a.stdout, view{
			data:  map[string]any{"removals": held, "silent": keys.Silent},
			names: namesOf(held, func(h *heldRemovals) string { return h.Key }),
			table: func(w io.Writer, _ bool) { heldTable(w, held) },
		}); err != nil || out.isData() {
			return err
		}
		silentLines(a.stderr, keys.Silent)
		return nil
	})
	return cmd
}

func heldTable(w io.Writer, held []heldRemovals) {
	if len(held) == 0 {
		fmt.Fprintln(w, "no removals are held back")
		return
	}
	rows := [][]string{{"KEY", "NODE", "HELD REMOVALS", "RESOURCES"}}
	for _, h := range held {
		rows = append(rows, []string{h.Key, h.Node, fmt.Sprint(h.Removals), fmt.Sprint(h.Resources)})
	}
	columns(w, rows)
}

// newRemovalsApproveCmd approves held removals.
func (a *app) newRemovalsApproveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "approve KEY",
		Short:   "Approve the held removals of a key",
		Long:    "Approve the held removals of a key on all nodes of the tier: clients lose the resources\nthat the control plane has removed.",
		Example: "  xdsrelay removals approve shop/eu",
		Args:    one("KEY", "'xdsrelay removals list' lists the keys with held removals"),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var done admin.Released
		raw, _, err := node.call(cmd.Context(), http.MethodPost, "/removals/approve", url.Values{ops.ParamKey: args}, nil, &done)
		if err != nil {
			return err
		}
		if err := out.print(a.stdout, view{data: raw, names: []string{done.Key}, table: text(done.String())}); err != nil || out.isData() {
			return err
		}
		silentLines(a.stderr, done.Silent)
		return nil
	})
	return cmd
}
