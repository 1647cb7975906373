package upstream

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/resource"
)

// maxRefusal bounds the text of a NACK in bytes (C4): Envoy and gRPC servers
// put it into logs and headers.
const maxRefusal = 4 << 10

// refusalOf is the error_detail of a NACK: it names the bad resources (C4).
func refusalOf(r *resource.Response) *statuspb.Status {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d resources cannot be used", len(r.Invalid), len(r.Invalid)+len(r.Resources))
	sep := ": "
	for i, inv := range r.Invalid {
		rest := fmt.Sprintf("; and %d more", len(r.Invalid)-i)
		one := sep + shorten(inv.Error(), maxRefusal/4)
		if b.Len()+len(one)+len(rest) > maxRefusal {
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

// namesOf returns the names of the invalid resources that have one. ok is false
// where one has none: then nobody knows which resource it stands for.
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

// unnamed reports whether name is the position that stands in for a name. A
// resource that is really called "#1" is taken for nameless, which is the safe
// side: nothing is deleted then.
func unnamed(name string) bool {
	digits, ok := strings.CutPrefix(name, "#")
	return name == "" || ok && strings.Trim(digits, "0123456789") == ""
}

// maxDelay is the longest delay of an answer. Within a second one still counts
// as prompt (C3).
const maxDelay = 900 * time.Millisecond

// answerDelay is how long an answer waits after n others to the same response in
// a row. Some servers send what was rejected, or has no news for them, again at
// once and would keep both sides busy for ever.
func answerDelay(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return min(50*time.Millisecond<<min(n, 4), maxDelay)
}
