package admin

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"xdsrelay/relay/ops"
)

// would says what another configuration would change. It takes the right of an operator, since
// rules can show what clients say about themselves.
func (t Tier) would(w http.ResponseWriter, r *http.Request) {
	candidate, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ops.MaxCandidate))
	if err != nil {
		http.Error(w, "the configuration: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := t.Model.Would(r.Context(), candidate)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// rulesDiffer refuses to move clients: they would get one key on one node and another on the next.
const rulesDiffer = "node %s has other aggregation rules than node %s; reload the configuration of all nodes first"

// applyRules makes clients on former rules reconnect.
func (t Tier) applyRules(w http.ResponseWriter, r *http.Request) {
	most, err := ops.ParseMost(r.URL.Query().Get(ops.ParamMost))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, d := range t.Members().Differences {
		if slices.Contains(d.Parts, "aggregation") {
			http.Error(w, fmt.Sprintf(rulesDiffer, d.Node, d.From), http.StatusConflict)
			return
		}
	}
	done := t.Model.Apply(r.Context(), most)
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, done)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "streams ended: %d; clients on former rules before: %d\n", done.Ended, done.Due())
	writeText(w, b.String()+silentText(done.Silent))
}
