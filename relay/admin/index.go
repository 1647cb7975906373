package admin

import (
	"html/template"
	"net/http"

	"xdsrelay/relay/csds"
)

// indexPage lists the endpoints. It needs nothing from elsewhere.
var indexPage = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{{.Title}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color-scheme: light dark; }
td { padding: .15em 1.5em .15em 0; vertical-align: top; }
a { font-family: ui-monospace, monospace; }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
<table>
{{range .Pages}}<tr><td><a href="{{.Link}}">{{.Path}}</a></td><td>{{.Text}}</td></tr>
{{end}}</table>
<p>The pages of <code>/debug/</code> that show state are JSON with <a href="/debug/keys?format=json">?format=json</a> or <code>Accept: application/json</code>.</p>
<p>A POST to <code>{{.ClientStatus}}</code> (a ClientStatusRequest as JSON, <code>{}</code> for everything) returns the status of all clients, as the client status discovery service (CSDS) does.</p>
<p>Operations are POSTs with the header <code>{{.RequestHeader}}: 1</code>; <code>xdsrelay drain</code> and <code>xdsrelay removals approve KEY</code> send them. <code>/drain</code> drains the node as SIGTERM does. <code>/removals/approve?key=</code> approves the held removals of a key. <code>/config/reload</code> reloads the configuration. <code>/reconnect</code> ends the backoff before the next attempts at control planes. <code>/kick?client=</code> closes the connection of a client. <code>/resend?client=&amp;type=</code> sends a client everything again. Both only list the clients with <code>dry_run=true</code>. <code>/log/level?part=&amp;level=</code> changes a log level. <code>/tier/explain</code> explains which key the Node in its body (as JSON) gets, and which node owns the key.</p>
</body>
</html>
`))

// index answers with the list of pages.
func index(title string, all []page) http.HandlerFunc {
	type entry struct{ Path, Link, Text string }
	data := struct {
		Title, ClientStatus, RequestHeader string
		Pages                              []entry
	}{Title: title, ClientStatus: csds.Path, RequestHeader: RequestHeader}
	for _, p := range all {
		link := p.link
		if link == "" {
			link = p.path
		}
		data.Pages = append(data.Pages, entry{p.path, link, p.text + listed(p.params)})
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = indexPage.Execute(w, data) // fails only where the client has gone
	}
}
