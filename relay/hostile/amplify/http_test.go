package amplify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
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

// get reads a page.
func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url) //nolint:gosec // a port of the node
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
	rows = append(rows, headerRows("polls", "http://"+n.REST)...)
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
					rows = append(rows, row{surface: "polls", message: "DiscoveryRequest (JSON)", field: field, pattern: v.name, refused: key == strangerKey, send: func(t *testing.T, size int) int {
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
func endpoints(t *testing.T) (all []admin.Endpoint) {
	t.Helper()
	for _, e := range admin.Endpoints() {
		e.Path = strings.TrimSuffix(e.Path, "{$}")
		e.Path = strings.Replace(e.Path, "{name}", "app.js", 1)
		if strings.Contains(e.Path, "{") {
			t.Errorf("%s %s has a part of which the test knows no value", e.Method, e.Path)
		}
		if !slices.Contains(endless, e.Path) {
			all = append(all, e)
		}
	}
	return all
}

// operatorRows are the rows of the ports for operators and for what watches the node.
func operatorRows(t *testing.T, n *node, all bool) (rows []row) {
	t.Helper()
	order := []string{admin.RequestHeader, "1"}
	for _, e := range endpoints(t) {
		rows = append(rows, queryRows("operators' port", "http://"+n.Admin, e, all, order...)...)
		if e.Method != http.MethodPost {
			continue
		}
		for _, v := range values {
			rows = append(rows, row{surface: "operators' port", message: e.Method + " " + e.Path, field: "body", pattern: v.name, send: func(t *testing.T, size int) int {
				t.Helper()
				body := `{"node":` + v.fill(size) + `}`
				ask(t, e.Method, "http://"+n.Admin+e.Path+"?text="+url.QueryEscape("x"), body, order...)
				return len(body)
			}})
		}
	}
	rows = append(rows, headerRows("operators' port", "http://"+n.Admin)...)
	rows = append(rows, headerRows("metrics port", "http://"+n.Metrics)...)
	for _, e := range admin.MachineEndpoints() {
		rows = append(rows, queryRows("metrics port", "http://"+n.Metrics, e, all)...)
	}
	return rows
}

// mostHeader is less than the line and the headers of a request may have on the HTTP ports.
const mostHeader = 15 << 10

// headerRows are the rows of what any HTTP request has, whether it is more than a port reads
// or not.
func headerRows(surface, base string) (rows []row) {
	add := func(field, pattern string, most int, fill func(size int) (path string, headers []string)) {
		rows = append(rows, row{surface: surface, message: "any HTTP request", field: field, pattern: pattern, most: most, send: func(t *testing.T, size int) int {
			t.Helper()
			path, headers := fill(size)
			ask(t, http.MethodGet, base+path, "", headers...)
			return size
		}})
	}
	for _, most := range []int{mostHeader, 0} {
		more := ""
		if most == 0 {
			more = ", more than is read"
		}
		add("path", "one huge text"+more, most, func(size int) (string, []string) { return "/" + strings.Repeat("x", size), nil })
		add("path", "escapes"+more, most, func(size int) (string, []string) { return "/" + strings.Repeat("%41", size/3), nil })
		add("header", "one huge text"+more, most, func(size int) (string, []string) { return "/", []string{"Cookie", strings.Repeat("a=b;", size/4)} })
		add("header", "many entries"+more, most, func(size int) (_ string, headers []string) {
			for n := 0; n < size; n += 16 {
				headers = append(headers, fmt.Sprintf("X-%08d", n), "x")
			}
			return "/", headers
		})
	}
	return rows
}

// queryRows are the rows of the query of an endpoint: of each parameter that it declares.
func queryRows(surface, base string, e admin.Endpoint, all bool, header ...string) (rows []row) {
	for _, param := range append(slices.Clone(e.Params), unknown) {
		for _, q := range queries(param, e.Params, all) {
			rows = append(rows, row{surface: surface, message: e.Method + " " + e.Path, field: param, pattern: q.name, most: mostHeader, send: func(t *testing.T, size int) int {
				t.Helper()
				text := q.fill(size)
				ask(t, e.Method, base+e.Path+"?"+text, "", header...)
				return len(text)
			}})
		}
	}
	return rows
}

// query is a way to fill the query of a URL with about so many bytes.
type query struct {
	name string
	fill func(size int) string
}

// usual are values with which a handler does what it is there for, by the parameter.
var usual = map[string]string{
	"client": "x", "format": "json", "from": otherNode, "key": fleetKey, "level": "info", "limit": "100", "node": "node", "resources": "100",
	"salt": strings.Repeat("0f", 32), "since": "0", "state": "synced", "type": "CDS",
}

// queries fill one parameter, while the others of the same endpoint have their usual values.
// Where all is not asked for, a text is filled with the first of [texts] alone. A name that
// ends in a colon includes all that begin with it.
func queries(param string, params []string, all bool) (q []query) {
	others := url.Values{}
	for _, p := range params {
		if value := usual[p]; value != "" && p != param {
			others.Set(p, value)
		}
	}
	name := url.QueryEscape(param)
	if strings.HasSuffix(param, ":") {
		name += url.QueryEscape(content.ClusterURL)
	}
	add := func(pattern string, fill func(size int) string) {
		q = append(q, query{pattern, func(size int) string { return others.Encode() + "&" + fill(size) }})
	}
	add("one huge text", func(size int) string { return name + "=" + strings.Repeat("x", size) })
	add("one text many times", func(size int) string { return strings.Repeat(name+"=1&", size/(len(name)+3)) })
	add("escapes", func(size int) string { return name + "=" + strings.Repeat("%41", size/3) })
	add("many entries", func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			if strings.HasSuffix(param, ":") {
				fmt.Fprintf(&b, "%s%d=x&", url.QueryEscape(param), i)
			} else {
				fmt.Fprintf(&b, "%s=%d&", name, i)
			}
		}
		return b.String()
	})
	for i, text := range texts {
		if i == 0 || all {
			add(fmt.Sprintf("%q repeated", text), func(size int) string { return name + "=" + strings.Repeat(text, size/len(text)) })
		}
	}
	return q
}
