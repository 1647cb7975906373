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
			http.Error(w, "the header "+RequestHeader+" is missing: send "+RequestHeader+": 1, which a web page of another site cannot send", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// explain shows which key a client gets, and which node owns the key.
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
	writeText(w, done.String()+silentText(done.Silent))
}

// String is the answer for people.
func (r Released) String() string {
	switch r.Removals {
	case 0:
		return "no removals of key " + strconv.Quote(r.Key) + " are held back\n"
	case 1:
		return "approved 1 removal of key " + strconv.Quote(r.Key) + "\n"
	}
	return "approved " + strconv.Itoa(r.Removals) + " removals of key " + strconv.Quote(r.Key) + "\n"
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
	writeText(w, d.String())
}

// String is the answer for people.
func (d Draining) String() string {
	over, streams := time.Duration(d.Over*float64(time.Second)), strconv.Itoa(d.Clients)+" streams"
	if d.Clients == 1 {
		streams = "1 stream"
	}
	return "node " + Printable(d.Node) + " is draining: it hands over its keys, closes " + streams + " over " + over.String() + ", and exits\n"
}
