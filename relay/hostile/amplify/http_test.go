package amplify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// ask sends an HTTP request and reads the answer to its end.
func ask(t *testing.T, method, url, body string, header ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: xdstest.Patience}
	res, err := client.Do(req)
	if err != nil {
		return 0 // the node does not read what is too large to its end
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// values are JSON values of about so many bytes that are hard to read.
var values = []query{
	{"one huge text", func(size int) string { return quoted(strings.Repeat("x", size)) }},
	{`"a:a:" repeated`, func(size int) string { return quoted(strings.Repeat("a:a:", size/4)) }},
	{"escapes", func(size int) string { return `"` + strings.Repeat(`\u0041`, size/6) + `"` }},
	{"many empty entries", func(size int) string { return `["` + strings.Repeat(`","`, size/3) + `"]` }},
	{"many entries", func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `%q:%d,`, fmt.Sprint(i), i)
		}
		return "{" + b.String() + `"":0}`
	}},
	{"equal entries", func(size int) string { return "{" + strings.Repeat(`"a":1,`, size/6) + `"a":1}` }},
	{"deep nesting", func(size int) string { return strings.Repeat("[", size/2) + strings.Repeat("]", size/2) }},
	{"many numbers", func(size int) string { return "[" + strings.Repeat("1,", size/2) + "1]" }},
}

// jsonValues are values, or the first few of them.
func jsonValues(all bool) []query {
	if all {
		return values
	}
	return values[:6]
}

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

// pollRows are the rows of the port for clients that poll: each field of a request, and
// each route.
func pollRows(t *testing.T, n *node, all bool) (rows []row) {
	t.Helper()
	fields := []string{"node.id", "node.metadata", "node.locality.region", unknown}
	d := (&discoveryv3.DiscoveryRequest{}).ProtoReflect().Descriptor()
	for i := range d.Fields().Len() {
		fields = append(fields, string(d.Fields().Get(i).Name()))
	}
	var routes []string
	for _, of := range resource.Known() {
		if of.Service != nil && of.Service.REST != "" {
			routes = append(routes, of.Service.REST)
		}
	}
	slices.Sort(routes)
	if len(routes) == 0 {
		t.Fatal("no type can be polled")
	}
	for i, route := range routes {
		for _, field := range fields {
			for j, v := range values {
				if i > 0 && !all && (field != "resource_names" || j > 3) {
					continue // all routes read a request in the same way
				}
				for _, key := range []string{fleetKey, strangerKey} {
					rows = append(rows, row{surface: "polls", message: "DiscoveryRequest (JSON)", field: field, pattern: v.name, send: func(t *testing.T, size int) int {
						t.Helper()
						body := fmt.Sprintf(`{"node":{"id":"x","cluster":%q},%s}`, key, object(strings.TrimPrefix(field, "node."), v.fill(size)))
						if inner, is := strings.CutPrefix(field, "node."); is {
							body = fmt.Sprintf(`{"node":{"id":"x","cluster":%q,%s}}`, key, object(inner, v.fill(size)))
						}
						ask(t, http.MethodPost, "http://"+n.REST+route, body)
						return len(body)
					}})
				}
			}
		}
	}
	return rows
}

// object is a field of a JSON object, at a path within it.
func object(path, value string) string {
	first, rest, more := strings.Cut(path, ".")
	if more {
		return fmt.Sprintf("%q:{%s}", first, object(rest, value))
	}
	return fmt.Sprintf("%q:%s", first, value)
}

// endless are endpoints without rows: profile and trace answer for as long as the operator
// asks them to, and drain ends the node. All of them take the rights of an operator.
var endless = []string{"/debug/pprof/profile", "/debug/pprof/trace", "/drain"}

// endpoints are those of the port for operators, with their methods, as it registers them.
func endpoints(t *testing.T) (all [][2]string) {
	t.Helper()
	for _, e := range admin.Endpoints() {
		path := strings.TrimSuffix(e.Path, "{$}")
		path = strings.Replace(path, "{name}", "app.js", 1)
		if strings.Contains(path, "{") {
			t.Errorf("%s %s has a part of which the test knows no value", e.Method, e.Path)
		}
		if !slices.Contains(endless, path) {
			all = append(all, [2]string{e.Method, path})
		}
	}
	return all
}

// Query parameters as the product reads them: by name, or by a constant for it.
var (
	readsParameter = regexp.MustCompile(`(?:\.(?:Get|Has)|matches)\((?:r, )?"([a-z_]+)"`)
	namesParameter = regexp.MustCompile(`(?m)^\s*param[A-Z].* = (".*)$`)
	aName          = regexp.MustCompile(`"([a-z_]+)"`)
)

// parameters are those that endpoints and questions of nodes take in their query: all that
// the program's source reads, and one that it does not know.
var parameters = sync.OnceValue(func() (all []string) {
	all = []string{"unknown"}
	for _, dir := range []string{"admin", "fleet", "csds", "tier", "."} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			panic(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				panic(err)
			}
			for _, m := range readsParameter.FindAllSubmatch(source, -1) {
				all = append(all, string(m[1]))
			}
			for _, list := range namesParameter.FindAll(source, -1) {
				for _, m := range aName.FindAllSubmatch(list, -1) {
					all = append(all, string(m[1]))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
})

// TestParameters holds that the parameters are found in the program's source.
func TestParameters(t *testing.T) {
	for _, name := range []string{"client", "format", "key", "level", "peer", "since", "state", "verbose"} {
		if !slices.Contains(parameters(), name) {
			t.Errorf("%q is not among the query parameters that are found: %q", name, parameters())
		}
	}
}

// operatorRows are the rows of the ports for operators and for what watches the node.
func operatorRows(t *testing.T, n *node) (rows []row) {
	t.Helper()
	for _, e := range endpoints(t) {
		method, path := e[0], e[1]
		at := "http://" + n.Admin + path
		rows = append(rows,
			row{surface: "operators' port", message: method + " " + path, field: "query", pattern: "one huge text", send: func(t *testing.T, size int) int {
				t.Helper()
				ask(t, method, at+"?key="+strings.Repeat("x", size), "", "X-Xdsrelay-Request", "1")
				return size
			}},
			row{surface: "operators' port", message: method + " " + path, field: "query", pattern: "a huge text in each parameter", send: func(t *testing.T, size int) int {
				t.Helper()
				value := "=" + strings.Repeat("x", size/len(parameters())) + "&"
				ask(t, method, at+"?"+strings.Join(parameters(), value)+value, "", "X-Xdsrelay-Request", "1")
				return size
			}},
			row{surface: "operators' port", message: method + " " + path, field: "query", pattern: "many entries", send: func(t *testing.T, size int) int {
				t.Helper()
				ask(t, method, at+"?"+strings.Repeat("key&", size/4), "", "X-Xdsrelay-Request", "1")
				return size
			}})
		if method != http.MethodPost {
			continue
		}
		for _, v := range values {
			rows = append(rows, row{surface: "operators' port", message: method + " " + path, field: "body", pattern: v.name, send: func(t *testing.T, size int) int {
				t.Helper()
				body := `{"node":` + v.fill(size) + `}`
				ask(t, method, at+"?text="+url.QueryEscape("x"), body, "X-Xdsrelay-Request", "1")
				return len(body)
			}})
		}
	}
	for _, e := range admin.MachineEndpoints() {
		for _, q := range queries(false) {
			rows = append(rows, row{surface: "metrics port", message: e.Method + " " + e.Path, field: "query", pattern: q.name, send: func(t *testing.T, size int) int {
				t.Helper()
				text := q.fill(size)
				ask(t, e.Method, "http://"+n.Metrics+e.Path+"?"+text, "")
				return len(text)
			}})
		}
	}
	return rows
}
