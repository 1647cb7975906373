package admin

import (
	"net/http"

	"xdsrelay/relay/ops"
)

func (t Tier) apiRejections(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseRejectionQuery(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, t.Model.Rejections(r.Context(), q))
}
