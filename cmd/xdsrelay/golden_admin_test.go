package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/csds"
)

// question is a request to an admin port.
type question struct{ method, path, body string }

// goldenQuestions are asked in this order: the last one ends the node.
var goldenQuestions = []question{
	{http.MethodGet, "/healthz", ""},
	{http.MethodGet, "/readyz", ""},
	{http.MethodGet, "/readyz?verbose", ""},
	{http.MethodGet, "/", ""},
	{http.MethodGet, "/debug/", ""},
	{http.MethodGet, "/ui/app.js", ""},
	{http.MethodGet, "/ui/none", ""},
	{http.MethodGet, "/debug/keys", ""},
	{http.MethodGet, "/debug/keys?format=json", ""},
	{http.MethodGet, "/debug/keys?key=edge", ""},
	{http.MethodGet, "/debug/keys?key=none", ""},
	{http.MethodGet, "/debug/streams", ""},
	{http.MethodGet, "/debug/streams?format=json", ""},
	{http.MethodGet, "/debug/streams?format=json&key=edge&node=sotw-waits", ""},
	{http.MethodGet, "/debug/streams?state=nacked", ""},
	{http.MethodGet, "/debug/streams?state=bad", ""},
	{http.MethodGet, "/debug/upstreams", ""},
	{http.MethodGet, "/debug/upstreams?format=json", ""},
	{http.MethodGet, "/debug/check", ""},
	{http.MethodGet, "/debug/check?format=json", ""},
	{http.MethodGet, "/log", ""},
	{http.MethodGet, "/log?format=json", ""},
	{http.MethodGet, "/config", ""},
	{http.MethodGet, "/config?format=json", ""},
	{http.MethodGet, "/tier/nodes", ""},
	{http.MethodGet, "/tier/nodes?format=json", ""},
	{http.MethodGet, "/tier/keys", ""},
	{http.MethodGet, "/tier/keys?format=json", ""},
	{http.MethodGet, "/tier/keys?key=shop", ""},
	{http.MethodGet, "/tier/keys?key=none", ""},
	{http.MethodGet, "/tier/owner", ""},
	{http.MethodGet, "/tier/owner?key=shop", ""},
	{http.MethodGet, "/tier/owner?key=none&format=json", ""},
	{http.MethodGet, "/api/v1/summary", ""},
	{http.MethodGet, "/api/v1/clients", ""},
	{http.MethodGet, "/api/v1/clients?limit=2", ""},
	{http.MethodGet, "/api/v1/clients?state=nacked,stale&type=CDS", ""},
	{http.MethodGet, "/api/v1/clients?key=edge&node=a&search=DELTA&prefix=delta&resources=10", ""},
	{http.MethodGet, "/api/v1/clients?client=delta-eds", ""},
	{http.MethodGet, "/api/v1/clients?sort=since&brief=true&limit=3", ""},
	{http.MethodGet, "/api/v1/clients?page=wrong", ""},
	{http.MethodGet, "/api/v1/clients?reason=NO&brief=true", ""},
	{http.MethodGet, "/api/v1/rejections?type=CDS", ""},
	{http.MethodGet, "/api/v1/rejections?key=edge&reason=none", ""},
	{http.MethodGet, "/api/v1/rejections?type=x", ""},
	{http.MethodGet, "/api/v1/resource?resource=shop-a&type=CDS&limit=2", ""},
	{http.MethodGet, "/api/v1/resource?resource=*-b&key=shop&state=stale,missing", ""},
	{http.MethodGet, "/api/v1/resource?resource=shopp-a", ""},
	{http.MethodGet, "/api/v1/resource?resource=shop-a&page=wrong", ""},
	{http.MethodGet, "/api/v1/resource", ""},
	{http.MethodGet, "/api/v1/compare?kind=key&a=shop&b=edge&type=CDS", ""},
	{http.MethodGet, "/api/v1/compare?kind=client&a=delta-ads&b=sotw-rejects&node_a=none&node_b=b", ""},
	{http.MethodGet, "/api/v1/compare?kind=client&a=delta-ads&b=nobody", ""},
	{http.MethodGet, "/api/v1/compare?kind=x&a=a&b=b", ""},
	{http.MethodGet, "/api/v1/clients?state=bad", ""},
	{http.MethodGet, "/api/v1/client", ""},
	{http.MethodGet, "/api/v1/client?client=delta-rejects&resources=10", ""},
	{http.MethodGet, "/api/v1/client?client=delta", ""},
	{http.MethodGet, "/api/v1/client?client=dleta-eds", ""},
	{http.MethodGet, "/api/v1/client/events", ""},
	{http.MethodGet, "/api/v1/client/events?client=delta-rejects", ""},
	{http.MethodGet, "/api/v1/client/events?client=sotw-ads&limit=2", ""},
	{http.MethodGet, "/api/v1/client/events?client=dleta-eds", ""},
	{http.MethodGet, "/api/v1/keys", ""},
	{http.MethodGet, "/api/v1/keys?sort=clients&limit=1", ""},
	{http.MethodGet, "/api/v1/keys?state=nacked,stale&owner=a&sort=state", ""},
	{http.MethodGet, "/api/v1/keys?state=bad", ""},
	{http.MethodGet, "/api/v1/keys?key=shop", ""},
	{http.MethodGet, "/api/v1/keys?search=G&limit=1", ""},
	{http.MethodGet, "/api/v1/keys?page=edge", ""},
	{http.MethodGet, "/api/v1/keys?limit=none", ""},
	{http.MethodGet, "/api/v1/diff", ""},
	{http.MethodGet, "/api/v1/diff?client=sotw-ads", ""},
	{http.MethodGet, "/api/v1/diff?client=sotw-rejects", ""},
	{http.MethodGet, "/api/v1/diff?client=delta-stalls", ""},
	{http.MethodGet, "/api/v1/diff?client=none", ""},
	{http.MethodGet, "/api/v1/history", ""},
	{http.MethodGet, "/api/v1/history?key=shop", ""},
	{http.MethodGet, "/api/v1/history?key=none", ""},
	{http.MethodGet, "/api/v1/history/changes?key=shop", ""},
	{http.MethodGet, "/api/v1/history/changes?key=shop&update=1&from=1", ""},
	{http.MethodGet, "/api/v1/history/changes?key=shop&to=1", ""},
	{http.MethodGet, "/api/v1/history/changes?key=shop&type=CDS&node=a&update=5", ""},
	{http.MethodGet, "/api/v1/history/changes?key=shop&from=w4&to=w6", ""},
	{http.MethodGet, "/api/v1/history/changes?key=shop&update=99", ""},
	{http.MethodGet, "/api/v1/history/changes?key=none&update=1", ""},
	{http.MethodGet, "/api/v1/version", ""},
	{http.MethodGet, "/api/v1/version?version=w5&key=shop", ""},
	{http.MethodGet, "/api/v1/version?version=w4&client=delta-rejects&node=a&type=CDS", ""},
	{http.MethodGet, "/api/v1/version?version=none", ""},
	{http.MethodGet, "/api/v1/events?kind=node.started", ""},
	{http.MethodGet, "/api/v1/events?key=none&kind=owner&limit=5&since=946684800", ""},
	{http.MethodGet, "/api/v1/events?kind=bad", ""},
	{http.MethodGet, "/api/v1/events?after=bad", ""},
	{http.MethodGet, "/api/v1/dump", ""},
	{http.MethodGet, "/api/v1/dump?key=edge", ""},
	{http.MethodGet, "/api/v1/dump?key=shop&type=CDS&node=a", ""},
	{http.MethodGet, "/api/v1/dump?key=none", ""},
	{http.MethodGet, "/api/v1/dump?key=shop&type=bad", ""},
	{http.MethodGet, "/api/v1/dump?key=shop&page=bad", ""},
	{http.MethodGet, "/api/v1/live", ""},
	{http.MethodGet, "/api/v1/series", ""},
	{http.MethodGet, "/api/v1/series?since=946684860", ""},
	{http.MethodGet, "/api/v1/series?since=bad", ""},
	{http.MethodPost, csds.Path, ""},
	{http.MethodPost, csds.Path + "?node=a", `{"exclude_resource_contents": true}`},
	{http.MethodPost, csds.Path, `{"node_matchers": [{"node_id": {"prefix": "sotw"}}]}`},
	{http.MethodPost, csds.Path, `{"nothing": 1}`},
	{http.MethodPost, "/tier/explain", `{"id": "new-client", "cluster": "shop"}`},
	{http.MethodPost, "/tier/explain?format=json", `{"id": "new-client", "cluster": "none"}`},
	{http.MethodPost, "/tier/explain?peer=%7B%22authenticated%22%3Atrue%7D", `{"id": "new-client", "cluster": "edge"}`},
	{http.MethodPost, "/tier/explain", `{"id": "new-client"}`},
	{http.MethodPost, "/tier/explain", `bad`},
	{http.MethodGet, "/metrics", ""},
	{http.MethodGet, "/metrics?name[]=xdsrelay_downstream_streams", ""},
	{http.MethodGet, "/debug/pprof/", ""},
	{http.MethodGet, "/debug/pprof/heap?gc=0&debug=0&seconds=0", ""},
	{http.MethodGet, "/debug/pprof/cmdline", ""},
	{http.MethodGet, "/debug/pprof/symbol?0x1", ""},
	{http.MethodPost, "/log/level?part=upstream&level=debug", ""},
	{http.MethodPost, "/log/level?part=upstream&level=debug&format=json", ""},
	{http.MethodPost, "/log/level?part=bad&level=debug", ""},
	{http.MethodPost, "/reconnect", ""},
	{http.MethodPost, "/reconnect?format=json", ""},
	{http.MethodPost, "/reconnect?dry_run=true&format=json", ""},
	{http.MethodPost, "/kick?client=delta-ads&dry_run=true", ""},
	{http.MethodPost, "/kick?client=delta-ads&dry_run=true&format=json", ""},
	{http.MethodPost, "/reconnect?node=none", ""},
	{http.MethodPost, "/reconnect?all=true&dry_run=true", ""},
	{http.MethodPost, "/kick?client=sotw-ads&key=shop&node=a&dry_run=true", ""},
	{http.MethodPost, "/kick?client=sotw-ads&key=edge&all=true", ""},
	{http.MethodPost, "/resend?client=sotw-ads&key=shop&node=a&all=true&dry_run=true", ""},
	{http.MethodPost, "/kick?client=delta", ""},
	{http.MethodPost, "/resend?client=delta-ads&dry_run=true&format=json", ""},
	{http.MethodPost, "/resend?client=sotw-ads&type=LDS", ""},
	{http.MethodPost, "/resend?client=sotw-ads&format=json", ""},
	{http.MethodPost, "/config/reload", ""},
	{http.MethodPost, "/config/reload?format=json", ""},
	{http.MethodGet, "/api/v1/rollout", ""},
	{http.MethodGet, "/api/v1/rollout?active=true", ""},
	{http.MethodGet, "/api/v1/rollout?key=none", ""},
	{http.MethodGet, "/api/v1/rollout/history?key=none", ""},
	{http.MethodGet, "/api/v1/rollout/history?key=shop", ""},
	{http.MethodGet, "/api/v1/rollout/diff?key=shop", ""},
	{http.MethodGet, "/api/v1/rollout/plan?key=none", ""},
	{http.MethodGet, "/api/v1/rollout/plan?key=shop", ""},
	{http.MethodPost, "/rollout/approve?key=shop", ""},
	{http.MethodPost, "/rollout/pause?key=shop", ""},
	{http.MethodPost, "/rollout/pause?key=shop&reason=test", ""},
	{http.MethodPost, "/rollout/resume?key=shop", ""},
	{http.MethodPost, "/rollout/resume?all=true", ""},
	{http.MethodPost, "/rollout/abort?key=shop&reason=test", ""},
	{http.MethodPost, "/rollout/retry?key=shop", ""},
	{http.MethodPost, "/rollout/promote?key=shop&reason=test", ""},
	{http.MethodPost, "/rollout/freeze?key=shop", ""},
	{http.MethodPost, "/rollout/freeze?key=shop&reason=test", ""},
	{http.MethodPost, "/rollout/freeze?all=true", ""},
	{http.MethodPost, "/rollout/unfreeze?key=shop", ""},
	{http.MethodPost, "/rollout/unfreeze?all=true", ""},
	{http.MethodPost, "/rollout/undo?key=none&reason=test", ""},
	{http.MethodPost, "/removals/approve", ""},
	{http.MethodPost, "/removals/approve?key=none", ""},
	{http.MethodPost, "/removals/approve?key=guarded", ""},
	{http.MethodPost, "/removals/approve?key=guarded", ""},
	{http.MethodPost, "/removals/approve?key=guarded&format=json", ""},
	{http.MethodPost, "/config/check", `{"rules": [{"name": "edge", "match": "node.cluster == \"edge\"", "key": "node.id"}, {"name": "shop", "match": "node.cluster == \"shop\"", "key": "node.cluster"}], "limits": {"max_streams": 1}}`},
	{http.MethodPost, "/config/check", `{"rules": [{"key": "node"}]}`},
	{http.MethodPost, "/rules/apply", ""},
	{http.MethodPost, "/rules/apply?most=10", ""},
	{http.MethodPost, "/rules/apply?most=10&format=json", ""},
	{http.MethodPost, "/drain?format=json", ""},
	{http.MethodPost, "/drain", ""},
}

// withoutGolden are endpoints and commands without a golden file, by why they have none.
var withoutGolden = map[string]string{
	"GET /debug/pprof/profile": "the Go runtime measures in real time, and a world in virtual time would wait for it",
	"GET /debug/pprof/trace":   "the Go runtime measures in real time, and a world in virtual time would wait for it",

	"xdsrelay run":            "it prints its log only",
	"xdsrelay demo":           "it runs in real time, and its tests read what it prints",
	"xdsrelay version":        "it prints the build",
	"xdsrelay context use":    "it writes a file, and its tests read it",
	"xdsrelay config default": "docs/reference/configuration.md has it",
	"xdsrelay config doc":     "docs/reference/configuration.md is its output",
	"xdsrelay config schema":  "it is generated from the same fields as docs/reference/configuration.md",
}

// endpoint returns the endpoint that q is for, in the form METHOD PATH.
func (q question) endpoint() string {
	path, _, _ := strings.Cut(q.path, "?")
	switch {
	case path == "/" || path == "/debug/":
		path += "{$}"
	case strings.HasPrefix(path, "/ui/"):
		path = "/ui/{name}"
	case path == "/debug/pprof/heap":
		path = "/debug/pprof/"
	}
	return q.method + " " + path
}

// goldenFile is the file of an endpoint.
func goldenFile(kind, endpoint string) string {
	return kind + strings.NewReplacer("{$}", "_", "/", "_", "{", "", "}", "", ":", "_").Replace(strings.TrimLeft(strings.ReplaceAll(endpoint, " ", ""), " ")) + ".txt"
}

// TestGoldenAdmin: what the endpoints of the admin port and of the metrics port answer, of a node
// on its own and of a tier.
func TestGoldenAdmin(t *testing.T) {
	for world, names := range goldenNodes {
		t.Run(world, func(t *testing.T) {
			inGoldenWorld(t, names, func(t *testing.T, w *goldenWorld) {
				files := make(map[string]string)
				record := func(kind string, port int, q question) {
					code, contentType, body := w.ask(t, q.method, "http://"+goldenAddress(port, 0)+q.path, q.body)
					file := goldenFile(kind, q.endpoint())
					files[file] += fmt.Sprintf("=== %s %s %s\n%d %s\n\n%s\n\n", q.method, q.path, q.body, code, contentType, stable(q.path, body))
				}
				for _, e := range admin.MachineEndpoints() {
					record("metrics_", goldenMetrics, question{e.Method, e.Path, ""})
				}
				_, _, overHTTP := w.ask(t, http.MethodPost, "http://"+goldenAddress(goldenAdmin, 0)+csds.Path, "")
				if got, want := stable("", w.clientStatus(t)), stable("", overHTTP); got != want {
					t.Errorf("client status over gRPC is not what it is over HTTP:\n%s\nexpected\n%s", got, want)
				}
				for _, q := range goldenQuestions {
					record("admin_", goldenAdmin, q)
				}
				compareGolden(t, filepath.Join("testdata", "golden", world), files)
			})
		})
	}
}

// TestGoldenAdminIsComplete holds that each endpoint has a golden file, in which each of its
// parameters is used.
func TestGoldenAdminIsComplete(t *testing.T) {
	for _, e := range admin.Endpoints() {
		used, found := url.Values{}, false
		for _, q := range goldenQuestions {
			if q.endpoint() != e.Method+" "+e.Path {
				continue
			}
			found = true
			_, query, _ := strings.Cut(q.path, "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			for name := range values {
				used.Set(name, "")
			}
		}
		if !found && withoutGolden[e.Method+" "+e.Path] == "" {
			t.Errorf("%s %s has no golden file: add a question to goldenQuestions", e.Method, e.Path)
		}
		for _, param := range e.Params {
			if found && !used.Has(param) && param != "format" && param != "*" {
				t.Errorf("%s %s: no golden file has the parameter %s: add a question to goldenQuestions", e.Method, e.Path, param)
			}
		}
	}
}

// compareGolden compares files with those of a folder, and that folder has no others.
func compareGolden(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		golden(t, filepath.Join(dir, name), text)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range there {
		if files[f.Name()] == "" {
			t.Errorf("%s is a golden file of nothing: remove it", filepath.Join(dir, f.Name()))
		}
	}
}
