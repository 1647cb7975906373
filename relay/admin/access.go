package admin

import (
	"context"
	"net/http"
	"strings"

	"xdsrelay/relay/secure"
)

// Access says who may use the admin port. The zero value lets in whoever reaches
// it, by an address or as localhost.
type Access struct {
	// Token lets do everything, ReadToken only look, and RolloutToken also give orders about rollouts that
	// skip no checks. All are nil where nobody is asked for a token; the others are nil without Token.
	Token, ReadToken, RolloutToken *secure.Token
	// Hosts are names, beside addresses and localhost, that the Host header may have.
	Hosts []string
	// AnyHost is for a port with TLS, where a browser sees from the certificate that
	// a name is not that of this node.
	AnyHost bool
	// StillTrusted tells whether the certificate that a request came with would be taken
	// now; nil where nobody shows one.
	StillTrusted func(*http.Request) error
	// Refused is called for each request without the required permission; may be nil. why is for
	// people, reason for metrics.
	Refused func(r *http.Request, reason Reason, why string)
}

// role is what somebody may do.
type role int

// The roles: each may do what those before it may.
const (
	noRole role = iota
	reader
	releaser
	operator
)

// roleKey is where a request's context has the role.
type roleKey struct{}

// Reason is why a request was rejected, as a label of a metric.
type Reason string

// The reasons.
const (
	ReasonUntrusted Reason = "untrusted"       // the certificate is no longer valid
	ReasonToken     Reason = "token"           // no valid token
	ReasonReadOnly  Reason = "read_only_token" // the token does not permit the command
	ReasonHost      Reason = "host"            // the Host header names another host
	ReasonCrossSite Reason = "cross_site"      // the page of another web site made the request
)

// open are the pages that tell nothing but whether a node lives and is ready, which
// kubelets ask for without a token.
var open = map[string]bool{"/healthz": true, "/readyz": true}

// trusted refuses those whose connection was made with a certificate that would be
// taken no more.
func (a Access) trusted(next http.Handler) http.Handler {
	if a.StillTrusted == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.StillTrusted(r); err != nil {
			if a.Refused != nil {
				a.Refused(r, ReasonUntrusted, "the certificate is no longer trusted: "+err.Error())
			}
			w.Header().Set("Connection", "close") // another one may come with a better certificate
			http.Error(w, "the certificate of this connection is no longer trusted", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admitted lets in those with a token, where there is one.
func (a Access) admitted(next http.Handler) http.Handler {
	if a.Token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is := a.roleOf(r)
		if is == noRole && !open[r.URL.Path] {
			a.refuse(w, r, http.StatusUnauthorized, ReasonToken, "no valid token; programs send it in the header Authorization (scheme Bearer), browsers as the password")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roleKey{}, is)))
	})
}

// asksToken tells whether a request comes from somebody who has none, where there is
// one.
func (a Access) asksToken(r *http.Request) bool {
	is, _ := r.Context().Value(roleKey{}).(role)
	return a.Token != nil && is == noRole
}

// roleOf reads the token of a request: as programs send it, or as the password that
// a browser asks for, with any user. One in the URL is none: URLs are logged.
func (a Access) roleOf(r *http.Request) role {
	given, ok := bearerOf(r)
	if !ok {
		if _, given, ok = r.BasicAuth(); !ok {
			return noRole
		}
	}
	switch {
	case a.Token.Matches(given):
		return operator
	case a.RolloutToken != nil && a.RolloutToken.Matches(given):
		return releaser
	case a.ReadToken != nil && a.ReadToken.Matches(given):
		return reader
	}
	return noRole
}

func bearerOf(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// refusals are what roles are answered that may not do something.
var refusals = map[role]string{
	reader:   "the token allows reading only; this request needs the token of an operator",
	releaser: "the token allows reading and orders about rollouts that skip no checks; this request needs the token of an operator",
}

// permits lets only those through who have a role, or a higher one.
func (a Access) permits(least role) func(next http.HandlerFunc) http.HandlerFunc {
	return func(next http.HandlerFunc) http.HandlerFunc {
		if a.Token == nil {
			return next
		}
		return func(w http.ResponseWriter, r *http.Request) {
			if is, _ := r.Context().Value(roleKey{}).(role); is < least {
				a.refuse(w, r, http.StatusForbidden, ReasonReadOnly, refusals[is])
				return
			}
			next(w, r)
		}
	}
}

// refuse says that a right is missing, and which.
func (a Access) refuse(w http.ResponseWriter, r *http.Request, status int, reason Reason, why string) {
	if a.Refused != nil {
		a.Refused(r, reason, why)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="xdsrelay", charset="UTF-8"`)
	}
	http.Error(w, why, status)
}
