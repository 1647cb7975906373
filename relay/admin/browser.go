package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard sets what keeps a browser from doing more with the pages than show them,
// and answers only those requests that no other web site has made it send: not for
// a name that was made to point at this machine, by which the site could read
// everything here, and nothing that belongs to a page of another site.
func (a Access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		switch {
		case !a.AnyHost && !a.isHere(r.Host):
			a.refuse(w, r, http.StatusForbidden, ReasonHost, "the Host header has to be an IP address, localhost or one of admin.hosts")
		case isForeign(r):
			a.refuse(w, r, http.StatusForbidden, ReasonCrossSite, "the request is from a page of another web site")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isHere tells whether a Host header means this node: that is an address, localhost
// or a name that is configured.
func (a Access) isHere(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if host == "localhost" || slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

// isForeign tells whether a browser sends a request for another web site. Who only
// follows a link from there may look.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site": // other ports of this machine are of the same site
		followed := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
		return !followed || r.Method != http.MethodGet && r.Method != http.MethodHead
	case "":
		origin := r.Header.Get("Origin")
		if origin == "" {
			return false
		}
		_, host, _ := strings.Cut(origin, "://")
		return !strings.EqualFold(host, r.Host)
	}
	return false
}
