package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/ops"
)

// keys shows the aggregation keys: a line for each of their types.
func (cfg Config) keys(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	groups := keep(cfg.Keys(), func(g cache.GroupInfo) bool { return matches(query, ops.ParamKey, g.Key) })
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, groups)
		return
	}
	rows := [][]string{{"KEY", "STREAMS", "UPSTREAM", "SINCE", "TYPE", "VERSION", "GENERATION", "RESOURCES", "WANTED", "SUBSCRIPTIONS", "WATCHERS", "BYTES", "ERROR"}}
	for _, g := range groups {
		clients := strconv.Itoa(g.Clients)
		if g.Peers > 0 {
			clients += " + " + strconv.Itoa(g.Peers) + " peer"
		}
		if g.Private > 0 { // their own tables would fill the page
			clients += " (" + strconv.Itoa(g.Private) + " with private streams)"
		}
		head := []string{g.Key, clients, upstreamState(g), age(g.Since)}
		if len(g.Tables) == 0 {
			rows = append(rows, append(head, "", "", "", "", "", "", "", "", g.Error))
		}
		for _, t := range g.Tables {
			wanted := strconv.Itoa(t.Names)
			if t.Wildcard {
				wanted = "*"
				if t.Names > 0 {
					wanted += "+" + strconv.Itoa(t.Names)
				}
			}
			rows = append(rows, append(slices.Clone(head), shortType(t.TypeURL), t.Version, strconv.FormatUint(t.Generation, 10),
				resources(t), wanted, strconv.Itoa(t.Subscriptions), strconv.Itoa(t.Watchers), strconv.FormatInt(t.Bytes, 10), g.Error))
		}
	}
	table(w, rows)
}

// resources is how many there are, and of how many the removal is held back.
// Those that were restored and that the origin has not confirmed are stale.
func resources(t cache.TableInfo) string {
	n := strconv.Itoa(t.Resources)
	if t.HeldRemovals > 0 {
		n += fmt.Sprintf(" (%d held removals)", t.HeldRemovals)
	}
	if t.Stale {
		n += " (last known good)"
	}
	return n
}

// upstreamState says how the key's streams are, and which are down where there
// are several.
func upstreamState(g cache.GroupInfo) string {
	switch {
	case g.Idle:
		return "idle"
	case g.Connected:
		return "connected"
	case len(g.Streams) < 2:
		return "down"
	}
	var down []string
	for _, l := range g.Streams {
		if l.Wanted && !l.Connected && !slices.Contains(down, l.Origin) {
			down = append(down, l.Origin)
		}
	}
	return "down: " + strings.Join(down, ", ")
}

// streams shows the clients: a line for each of their types.
func (cfg Config) streams(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	state := query.Get(paramState)
	streams := keep(cfg.Streams(), func(s fanout.StreamInfo) bool {
		return matches(query, ops.ParamKey, s.Key) && matches(query, paramNode, s.NodeID) &&
			(state == "" || slices.ContainsFunc(s.Types, func(t fanout.TypeInfo) bool { return string(t.State) == state }))
	})
	slices.SortFunc(streams, func(a, b fanout.StreamInfo) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(a.Peer, b.Peer), a.Since.Compare(b.Since))
	})
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, streams)
		return
	}
	rows := [][]string{{"NODE", "PEER", "KEY", "VARIANT", "SERVICE", "SINCE", "TYPE", "STATE", "SENT", "ACKED", "NEWEST", "NAMES", "VERSION", "ACKS", "NACKS", "LAST NACK"}}
	for _, s := range streams {
		head := []string{s.NodeID, s.Peer, s.Key, s.Variant, s.Service, age(s.Since)}
		if len(s.Types) == 0 {
			rows = append(rows, append(head, "", "", "", "", "", "", "", "", "", ""))
		}
		for _, t := range s.Types {
			names, nack := strconv.Itoa(t.Names), ""
			if t.Wildcard {
				names = "*"
			}
			if t.LastNack != nil {
				nack = t.LastNack.Message
			}
			name := shortType(t.TypeURL)
			if t.Private {
				name += " (private)"
			}
			rows = append(rows, append(slices.Clone(head), name, string(t.State),
				strconv.FormatUint(t.Sent, 10), strconv.FormatUint(t.Acked, 10), strconv.FormatUint(t.Head, 10), names, t.Version,
				strconv.FormatUint(uint64(t.Acks), 10), strconv.FormatUint(uint64(t.Nacks), 10), nack))
		}
	}
	table(w, rows)
}

// origins shows where configuration comes from.
func (cfg Config) origins(w http.ResponseWriter, r *http.Request) {
	all := cfg.Origins()
	for i := range all {
		all[i].Problems = append([]string{}, all[i].Problems...)
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, all)
		return
	}
	rows := [][]string{{"NAME", "KIND", "ADDRESS", "VARIANT", "AUTHORITIES", "TYPES"}}
	for i, o := range all {
		types := strings.Join(o.Types, ", ")
		if i == 0 && len(all) > 1 {
			types = "all others"
		}
		quoted := make([]string, len(o.Authorities))
		for k, a := range o.Authorities {
			quoted[k] = strconv.Quote(a)
		}
		rows = append(rows, []string{o.Name, o.Kind, strings.Join(o.Where, ", "), o.Variant, strings.Join(quoted, ", "), types})
	}
	table(w, rows)
	for _, o := range all {
		for _, problem := range o.Problems {
			writeText(w, "upstream "+o.Name+": "+Printable(problem)+"\n")
		}
		for _, one := range o.SeparateTypes {
			writeText(w, "upstream "+o.Name+", separate stream for: "+Printable(one)+"\n")
		}
	}
}

// keep returns those that fulfil a condition; never nil, for JSON.
func keep[T any](all []T, wanted func(T) bool) []T {
	out := make([]T, 0, len(all))
	for _, one := range all {
		if wanted(one) {
			out = append(out, one)
		}
	}
	return out
}

// shortType is the last part of a type URL; JSON has the whole.
func shortType(url string) string { return url[strings.LastIndexAny(url, "./")+1:] }

// Ago is the time since, in a form for people, the shorter the longer it is; empty for
// never.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := max(now.Sub(then), 0)
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// age is the time since, in a form for people.
func age(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	d := max(time.Since(since), 0) // another node's clock may be ahead
	if d > time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}
