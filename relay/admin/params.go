package admin

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The parameters of queries. Those about clients are [ops.QueryParams], and an aggregation key is
// [ops.ParamKey].
const (
	paramClient    = "client"
	paramFormat    = "format"
	paramLevel     = "level"
	paramLimit     = "limit"
	paramMetric    = "name[]" // of promhttp
	paramNode      = "node"
	paramPage      = "page"
	paramPart      = "part"
	paramPeer      = "peer"
	paramResources = "resources"
	paramSearch    = "search"
	paramSince     = "since"
	paramState     = "state"
	paramType      = "type"
	paramVerbose   = "verbose"

	// wholeQuery among the parameters of an endpoint means its query as it is.
	wholeQuery = "*"
)

// reading returns h without the parameters of a query that are not among params, so that what
// an endpoint declares is all that it reads.
func reading(params []string, h http.HandlerFunc) http.HandlerFunc {
	if slices.Contains(params, wholeQuery) {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			query := r.URL.Query()
			maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(params, name) })
			at := *r.URL
			at.RawQuery = query.Encode()
			r = r.WithContext(r.Context()) // a copy: the caller keeps its query
			r.URL = &at
		}
		h(w, r)
	}
}

// listed is the parameters in a form for people; "" for none.
func listed(params []string) string {
	if len(params) == 0 || slices.Contains(params, wholeQuery) {
		return ""
	}
	return " (?" + strings.Join(params, "=, ?") + "=)"
}

// matches reports whether a parameter is missing or is this value.
func matches(query url.Values, parameter, value string) bool {
	wanted := query.Get(parameter)
	return wanted == "" || wanted == value
}
