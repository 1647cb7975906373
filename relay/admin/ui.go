package admin

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// The live page: files that go to the browser as they are. They ask the API for what
// they show, and need nothing from elsewhere.
//
//go:embed ui
var uiFiles embed.FS

// uiPath is where the files of the live page are.
const uiPath = "/ui/"

// uiPolicy lets the page do what it needs, and nothing else: no script or style but its
// own files, no markup made of texts, and no other host.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var uiTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".md": "text/markdown; charset=utf-8",
}

// uiFile answers with a file of the page.
func uiFile(w http.ResponseWriter, r *http.Request, name string) {
	content, err := fs.ReadFile(uiFiles, path.Join("ui", name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Security-Policy", uiPolicy)
	w.Header().Set("Cache-Control", "no-cache")
	writeIfNew(w, r, uiTypes[path.Ext(name)], content)
}

// home answers a browser with the live page, and others with the list of endpoints.
func home(index http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			index(w, r)
			return
		}
		uiFile(w, r, "index.html")
	}
}
