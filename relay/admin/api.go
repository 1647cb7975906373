package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"xdsrelay/relay/ops"
)

// The answers below /api/v1/ are JSON and keep their fields: later versions of the
// program add to them. Each tells of the whole tier, whichever node is asked, and
// names the nodes that did not answer under "silent".
const apiPath = "/api/v1/"

// apiPages are the endpoints for programs.
func (t Tier) apiPages() []page {
	return []page{
		{apiPath + "summary", "", "the number of clients in each state, by type and node", t.apiSummary, nil},
		{apiPath + "clients", apiPath + "clients?limit=100", "the clients with their state for each type, page by page", t.apiClients, ops.QueryParams()},
		{apiPath + "client", apiPath + "client?client=NAME", "one client by its name or the beginning of its name", t.apiClient, []string{paramClient, paramResources}},
		{apiPath + "client/events", apiPath + "client/events?client=NAME", "the last events of a client on all nodes, also after it has left", t.apiClientEvents, ops.ClientEventParams()},
		{apiPath + "keys", "", "the keys: owner, followers, and states of their clients", t.apiKeys, ops.KeyQueryParams()},
		{apiPath + "rejections", "", "why clients reject what they were sent: by reason, with keys, versions, nodes and resources", t.apiRejections, ops.RejectionParams()},
		{apiPath + "resource", apiPath + "resource?resource=NAME", "the keys that serve a resource, and its state on their clients", t.apiResource, ops.WhoParams()},
		{apiPath + "diff", apiPath + "diff?client=NAME", "the resources of a client compared with the current ones", t.apiDiff, []string{paramClient}},
		{apiPath + "compare", apiPath + "compare?kind=key&a=KEY&b=NAME", "the resources of two clients or two keys compared, without secrets", t.apiCompare, ops.CompareParams()},
		{apiPath + "history", apiPath + "history?key=NAME", "the last updates of a key, by type", t.apiHistory, []string{ops.ParamKey}},
		{apiPath + "history/changes", apiPath + "history/changes?key=NAME", "what an update of a key changed, or how two updates differ: fields without secrets", t.apiChanges, ops.ChangesParams()},
		{apiPath + "version", apiPath + "version?version=VERSION", "which clients have a version of the control plane", t.apiVersion, ops.ArrivalParams()},
		{apiPath + "events", "", "what happened in the tier: nodes, control planes, configurations, owners, Redis; after continues an answer", t.apiEvents, ops.EventParams()},
		{apiPath + "dump", apiPath + "dump?key=NAME", "the resources of a key without secrets, page by page", t.apiDump, []string{ops.ParamKey, paramType, paramNode, paramPage}},
	}
}

func (t Tier) apiSummary(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, t.Model.Summary(r.Context()))
}

func (t Tier) apiClients(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseQuery(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	page, err := t.Model.Clients(r.Context(), q)
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, page)
}

func (t Tier) apiClient(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseQuery(r.URL.Query())
	if err == nil && q.Name == "" {
		err = errors.New("the parameter client is missing: expected ?client=NAME")
	}
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	found, err := t.Model.Find(r.Context(), q.Name, q.Resources)
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	status := http.StatusOK
	if len(found.Clients) == 0 {
		status = http.StatusNotFound
	}
	writeJSON(w, status, found)
}

func (t Tier) apiKeys(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseKeyQuery(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, t.Model.Keys(r.Context(), q))
}

// apiError tells a program what was wrong with its request.
func apiError(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, struct {
		Error string `json:"error"`
	}{err.Error()})
}

func (t Tier) apiDiff(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get(paramClient)
	if name == "" {
		apiError(w, http.StatusBadRequest, errors.New("the parameter client is missing: expected ?client=NAME"))
		return
	}
	diff, err := t.Model.Diff(r.Context(), name)
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	status := http.StatusOK
	if len(diff.Diffs) == 0 {
		status = http.StatusNotFound
	}
	writeJSON(w, status, diff)
}

func (t Tier) apiHistory(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ops.ParamKey)
	if key == "" {
		apiError(w, http.StatusBadRequest, errors.New("the parameter key is missing: expected ?key=KEY"))
		return
	}
	history, err := t.Model.History(r.Context(), key)
	if err != nil {
		apiError(w, http.StatusNotFound, t.keyError(r.Context(), err, key, history.Silent))
		return
	}
	writeJSON(w, http.StatusOK, history)
}

func (t Tier) apiDump(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	key, typeURL := v.Get(ops.ParamKey), ""
	if key == "" {
		apiError(w, http.StatusBadRequest, errors.New("the parameter key is missing: expected ?key=KEY"))
		return
	}
	if text := v.Get(paramType); text != "" {
		if typeURL = ops.TypeURL(text); typeURL == "" {
			apiError(w, http.StatusBadRequest, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text))
			return
		}
	}
	dump, err := t.Model.Dump(r.Context(), key, typeURL, v.Get(paramNode), v.Get(paramPage))
	switch {
	case errors.Is(err, ops.ErrUnknownKey):
		apiError(w, http.StatusNotFound, t.keyError(r.Context(), err, key, dump.Silent))
	case err != nil:
		apiError(w, http.StatusBadRequest, err)
	default:
		writeJSON(w, http.StatusOK, dump)
	}
}

// keyError says of an unknown key what is worth knowing.
func (t Tier) keyError(ctx context.Context, err error, key string, silent []ops.Silent) error {
	if !errors.Is(err, ops.ErrUnknownKey) {
		return err
	}
	return errors.New(strings.TrimSpace(t.unknownKey(ctx, key, silent)))
}

func (t Tier) apiChanges(w http.ResponseWriter, r *http.Request) {
	q, err := ops.ParseChangesQuery(r.URL.Query())
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	changes, err := t.Model.Changes(r.Context(), q)
	switch {
	case errors.Is(err, ops.ErrUnknownKey), errors.Is(err, ops.ErrNoUpdate):
		apiError(w, http.StatusNotFound, t.keyError(r.Context(), err, q.Key, changes.Silent))
	case err != nil:
		apiError(w, http.StatusBadRequest, err)
	default:
		writeJSON(w, http.StatusOK, changes)
	}
}

func (t Tier) apiVersion(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q, err := ops.ParseQuery(v)
	if err == nil && v.Get(ops.ParamVersion) == "" {
		err = errors.New("the parameter version is missing: expected ?version=VERSION")
	}
	if err != nil {
		apiError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, t.Model.Arrival(r.Context(), v.Get(ops.ParamVersion), q))
}
