package admin

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// RequestHeader has to be set in requests that change something, to any value: a
// browser does not send it for a page of another site.
const RequestHeader = "X-Xdsrelay-Request"

// maxNode bounds what a client's Node may take in a request.
const maxNode = 4 << 20

// ordered lets only those requests through that no web site can have made its visitor
// send.
func ordered(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(RequestHeader) == "" {
			http.Error(w, "the header "+RequestHeader+" is missing: set it, as in "+RequestHeader+": 1, to show that the request does not come from a web page", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// explain tells which key a client gets, and what becomes of it.
func (t Tier) explain(w http.ResponseWriter, r *http.Request) {
	var peer []byte
	node, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxNode))
	if err != nil {
		http.Error(w, "the client's Node: "+err.Error(), http.StatusBadRequest)
		return
	}
	if text := r.URL.Query().Get(paramPeer); text != "" {
		peer = []byte(text)
	}
	ex, err := t.Explain(r.Context(), node, peer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := http.StatusOK
	if ex.Refused {
		status = http.StatusUnprocessableEntity
	}
	if wantsJSON(r) {
		writeJSON(w, status, ex)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	for line := range strings.Lines(ex.Rules.String()) {
		writeText(w, Printable(strings.TrimSuffix(line, "\n"))+"\n")
	}
	if ex.Key != nil {
		writeText(w, "\n")
		writeKey(w, *ex.Key, ex.Silent)
	}
}

// release does the removals that are held back.
func (t Tier) release(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ops.ParamKey)
	if key == "" {
		http.Error(w, "the parameter key is missing: expected ?key=KEY", http.StatusBadRequest)
		return
	}
	done, err := t.Release(r.Context(), key)
	if errors.Is(err, ops.ErrUnknownKey) {
		http.Error(w, strings.TrimSuffix(t.unknownKey(r.Context(), key, done.Silent), "\n"), http.StatusNotFound)
		return
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, done)
		return
	}
	switch done.Removals {
	case 0:
		writeText(w, "no removals of key "+strconv.Quote(key)+" are held\n")
	case 1:
		writeText(w, "a removal of key "+strconv.Quote(key)+" that was held back is done\n")
	default:
		writeText(w, strconv.Itoa(done.Removals)+" removals of key "+strconv.Quote(key)+" that were held back are done\n")
	}
	writeText(w, silentText(done.Silent))
}

// drain makes the node end.
func (t Tier) drain(w http.ResponseWriter, r *http.Request) {
	d, err := t.Drain()
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusAccepted, d)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	over := time.Duration(d.Over * float64(time.Second))
	writeText(w, "node "+Printable(d.Node)+" hands its keys over, sends its clients away ("+strconv.Itoa(d.Clients)+" streams over "+over.String()+"), and ends\n")
}

// Reconnecting says how many control planes a node tries now.
type Reconnecting struct {
	ControlPlanes int `json:"control_planes"`
}

// reconnect ends the pauses before the next attempts at control planes.
func (cfg Config) reconnect(w http.ResponseWriter, r *http.Request) {
	n := cfg.Reconnect()
	switch {
	case n == 0:
		http.Error(w, "this node has no control plane: it reads configuration from a directory", http.StatusConflict)
	case wantsJSON(r):
		writeJSON(w, http.StatusAccepted, Reconnecting{n})
	default:
		w.WriteHeader(http.StatusAccepted)
		writeText(w, "reconnecting streams that are in backoff; control planes: "+strconv.Itoa(n)+"\n")
	}
}
