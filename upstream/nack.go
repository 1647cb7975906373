package upstream

import (
	"fmt"
	"strings"
	"unicode/utf8"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/resource"
)

// maxErrorDetail bounds the text of a NACK in bytes (C4): Envoy and gRPC servers put it into logs
// and headers.
const maxErrorDetail = 4 << 10

// errorDetailOf returns the error_detail of a NACK. It names the invalid resources (C4).
func errorDetailOf(r *resource.Response) *statuspb.Status {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d resources cannot be used", len(r.Invalid), len(r.Invalid)+len(r.Resources))
	sep := ": "
	for i, inv := range r.Invalid {
		rest := fmt.Sprintf("; and %d more", len(r.Invalid)-i)
		one := sep + shorten(inv.Error(), maxErrorDetail/4)
		if b.Len()+len(one)+len(rest) > maxErrorDetail {
			b.WriteString(rest)
			break
		}
		b.WriteString(one)
		sep = "; "
	}
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: b.String()}
}

// shorten cuts s to at most n bytes, between runes.
func shorten(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// namesOf returns the names of the invalid resources that have one. ok is false if one has none:
// then it is unknown which resource it is.
func namesOf(invalid []resource.Invalid) (names []string, ok bool) {
	ok = true
	for _, inv := range invalid {
		if unnamed(inv.Name) {
			ok = false
			continue
		}
		names = append(names, inv.Name)
	}
	return names, ok
}

// unnamed reports whether name is the position that replaces a missing name. A resource whose real
// name is "#1" counts as unnamed, which is safe: nothing is removed then.
func unnamed(name string) bool {
	digits, ok := strings.CutPrefix(name, "#")
	return name == "" || ok && strings.Trim(digits, "0123456789") == ""
}
