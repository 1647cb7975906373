package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
)

// apiClientEvents are the last events of a client.
func (t Tier) apiClientEvents(w http.ResponseWriter, r *http.Request) {
	name, limit, err := ops.ParseClientEventQuery(r.URL.Query())
	if err == nil && name == "" {
		err = errors.New("the parameter client is missing: expected ?client=NAME")
	}
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	all, err := t.Model.ClientEvents(r.Context(), name, limit)
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	status := http.StatusOK
	if len(all.Events) == 0 {
		status = http.StatusNotFound
	}
	writeJSON(w, status, all)
}

// maxGiver bounds what other nodes log of who gives an order, in bytes.
const maxGiver = 256

// giver is who gives an order, for the logs of other nodes.
func (cfg Config) giver(r *http.Request) string {
	return redact.Short(cfg.Access.identity(r)+" from "+r.RemoteAddr, maxGiver)
}

// order has an order about clients carried out.
func (cfg Config) order(do string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := ops.ParseOrder(do, r.URL.Query())
		if err != nil {
			orderFailed(w, r, http.StatusBadRequest, err)
			return
		}
		o.By = cfg.giver(r)
		done, err := cfg.Tier.Model.Order(r.Context(), o)
		switch {
		case errors.Is(err, ops.ErrNoClient):
			orderFailed(w, r, http.StatusNotFound, cfg.Tier.Model.NotOrdered(r.Context(), o, done, err))
			return
		case errors.Is(err, ops.ErrAmbiguous):
			orderFailed(w, r, http.StatusConflict, cfg.Tier.Model.NotOrdered(r.Context(), o, done, err))
			return
		case err != nil:
			orderFailed(w, r, http.StatusBadRequest, err)
			return
		}
		answerOrder(w, r, o.DryRun, done, OrderText(&done)+UnorderedText(done.Silent))
	}
}

func orderFailed(w http.ResponseWriter, r *http.Request, status int, err error) {
	if wantsJSON(r) {
		apiError(w, status, err)
		return
	}
	http.Error(w, printableLines(err.Error()), status)
}

func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// answerOrder answers an order that was given, or with dryRun would have been.
func answerOrder(w http.ResponseWriter, r *http.Request, dryRun bool, done any, text string) {
	status := http.StatusAccepted
	if dryRun {
		status = http.StatusOK
	}
	if wantsJSON(r) {
		writeJSON(w, status, done)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	writeText(w, text)
}

// OrderText is what became of an order, for people.
func OrderText(done *ops.Ordered) string {
	var b strings.Builder
	would := ""
	if done.DryRun {
		would = "would be "
	}
	for _, c := range done.Clients {
		who := fmt.Sprintf("client %s (key %s, node %s, peer %s)", Printable(c.ID), Printable(c.Key), Printable(c.Node), Printable(c.Peer))
		switch {
		case done.Order == ops.OrderKick:
			fmt.Fprintf(&b, "%s: its connection %sclosed (GOAWAY), with %s\n", who, would, counted(c.Streams, "stream"))
			if len(c.Sharing) > 0 {
				fmt.Fprintf(&b, "  clients on the same connection, which %sclosed with it: %s\n", areOr(would), Printable(strings.Join(c.Sharing, ", ")))
			}
		case len(c.Sent) == 0:
			fmt.Fprintf(&b, "%s: nothing to send, it does not subscribe to that type\n", who)
		default:
			fmt.Fprintf(&b, "%s: %sresent: %s\n", who, would, strings.Join(c.Sent, ", "))
		}
	}
	if len(done.Clients) == 0 && len(done.Silent) == 0 {
		b.WriteString("no client was found any more: it has just disconnected\n")
	}
	if done.DryRun {
		b.WriteString("dry run: nothing was changed\n")
	}
	return b.String()
}

// UnorderedText names the nodes that have not carried out an order.
func UnorderedText(silent []ops.Silent) string {
	var b strings.Builder
	for _, s := range silent {
		fmt.Fprintf(&b, "node %s has not carried out the order: %s\n", Printable(s.Node), Printable(s.Error))
	}
	return b.String()
}

func areOr(would string) string {
	if would == "" {
		return "are "
	}
	return would
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// reconnect ends the backoff before the next attempts at control planes.
func (cfg Config) reconnect(w http.ResponseWriter, r *http.Request) {
	o, err := ops.ParseReconnect(r.URL.Query())
	if err != nil {
		orderFailed(w, r, http.StatusBadRequest, err)
		return
	}
	o.By = cfg.giver(r)
	done, err := cfg.Tier.Model.Reconnect(r.Context(), o)
	switch {
	case err != nil:
		orderFailed(w, r, http.StatusBadRequest, err)
	case done.ControlPlanes == 0 && len(done.Silent) == 0 && len(done.Nodes) == 1:
		http.Error(w, "this node has no control plane: its upstream is a directory", http.StatusConflict)
	default:
		answerOrder(w, r, o.DryRun, done, ReconnectText(&done)+UnorderedText(done.Silent))
	}
}

// ReconnectText is what became of the order, for people.
func ReconnectText(done *ops.Reconnecting) string {
	var b strings.Builder
	does := "retries"
	if done.DryRun {
		does = "would retry"
	}
	for _, n := range done.Nodes {
		fmt.Fprintf(&b, "node %s %s all broken streams to %s now\n", Printable(n.Node), does, counted(n.ControlPlanes, "control plane"))
	}
	if done.DryRun {
		b.WriteString("dry run: nothing was changed\n")
	}
	return b.String()
}
