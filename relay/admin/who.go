package admin

import (
	"net/http"

	"xdsrelay/relay/ops"
)

// apiResource reports which keys serve resources, and how clients stand with them.
func (t Tier) apiResource(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseWho(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	who := t.Model.Who(r.Context(), q)
	status := http.StatusOK
	if len(who.Resources) == 0 && !q.Later() {
		status = http.StatusNotFound
	}
	writeJSON(w, status, who)
}
