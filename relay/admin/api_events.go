package admin

import (
	"net/http"

	"xdsrelay/relay/ops"
)

func (t Tier) apiEvents(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseEventQuery(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, t.Model.Events(r.Context(), q))
}
