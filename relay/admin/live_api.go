package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
)

// livePages are what the live page asks for.
func (cfg Config) livePages(v *watcher) []page {
	return []page{
		{apiPath + "live", "", "summary of the tier: nodes, clients by state, propagation of updates, traffic, warnings", func(w http.ResponseWriter, r *http.Request) {
			writeTagged(w, r, v.look(r.Context()))
		}, nil},
		{apiPath + "series", "", "the last hour of the tier, one sample every ten seconds; since is Unix time in seconds", cfg.apiSeries, []string{paramSince}},
	}
}

// settled is how old samples are of which no node's is missing any more.
const settled = 3 * time.Second

func (cfg Config) apiSeries(w http.ResponseWriter, r *http.Request) {
	since := int64(0)
	if text := r.URL.Query().Get(paramSince); text != "" {
		var err error
		if since, err = strconv.ParseInt(text, 10, 64); err != nil {
			apiError(w, http.StatusBadRequest, fmt.Errorf("since: got %q, expected seconds of Unix time", text))
			return
		}
	}
	parts, silent := cfg.Tier.Series(r.Context(), since)
	var names [series.States]string
	for i, s := range ops.States() {
		names[i] = strings.ToLower(string(s))
	}
	writeTagged(w, r, Series{series.Join(parts, names, since, time.Now().Add(-settled).Unix()), silent})
}

// Series is the last hour of the nodes that answered.
type Series struct {
	series.Tier

	// Silent are those that did not, and are missing in all numbers.
	Silent []ops.Silent `json:"silent"`
}

// writeTagged answers with JSON, or with 304 to who has it already.
func writeTagged(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil { // cannot be: these are texts and numbers
		apiError(w, http.StatusInternalServerError, err)
		return
	}
	writeIfNew(w, r, "application/json", append(body, '\n'))
}

// writeIfNew answers with a body that is known by its hash.
func writeIfNew(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	sum := sha256.Sum256(body)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	w.Header().Set("Content-Type", contentType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
