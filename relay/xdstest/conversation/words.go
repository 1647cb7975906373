package conversation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	codepb "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/xdstest"
)

// shortTypes are the words for the types of table A-1. It is never changed.
var shortTypes = map[string]string{
	"cds": xdstest.ClusterType, "eds": xdstest.EndpointType, "lds": xdstest.ListenerType, "rds": xdstest.RouteType,
	"srds": xdstest.ScopedRouteType, "vhds": xdstest.VirtualHostType, "leds": xdstest.LbEndpointType,
	"sds": xdstest.SecretType, "rtds": xdstest.RuntimeType, "ecds": xdstest.ExtensionConfigType,
	"thrift": xdstest.ThriftRouteType, "ratelimit": xdstest.RateLimitConfigType,
}

const typePrefix = "type.googleapis.com/"

// typeURL reads a type: a short word, a message name with a dot in it, or a type
// URL.
func typeURL(w word) (string, error) {
	if u, ok := shortTypes[w.text]; ok && !w.quoted && !w.braces {
		return u, nil
	}
	switch {
	case w.braces || w.equals >= 0, !strings.Contains(w.text, "."):
		return "", fmt.Errorf("%s is no type; use %s, or a message name like x.Y", w, strings.Join(slices.Sorted(maps.Keys(shortTypes)), ", "))
	case strings.Contains(w.text, "/"):
		return w.text, nil
	}
	return typePrefix + w.text, nil
}

// typeWord is the shortest way to write a type URL.
func typeWord(url string) string {
	for short, u := range shortTypes {
		if u == url {
			return short
		}
	}
	return strings.TrimPrefix(url, typePrefix)
}

// statusCode reads a code as gRPC spells it: NOT_FOUND.
func statusCode(w word) (codes.Code, error) {
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(strconv.Quote(w.text))); err != nil || w.braces {
		return 0, fmt.Errorf("%s is no gRPC status code like NOT_FOUND", w)
	}
	return c, nil
}

// codeName is a code as gRPC spells it.
func codeName(code int32) string {
	if name, ok := codepb.Code_name[code]; ok {
		return name
	}
	return strconv.Itoa(int(code))
}

// args are the words of a line that are still to be read.
type args struct{ words []word }

func (a *args) empty() bool { return len(a.words) == 0 }

// at reports whether the next word is the keyword.
func (a *args) at(keyword string) bool { return !a.empty() && a.words[0].is(keyword) }

// skip reads the keyword if it is next.
func (a *args) skip(keyword string) bool {
	if !a.at(keyword) {
		return false
	}
	a.words = a.words[1:]
	return true
}

// next reads a word; what says what was expected, for the error.
func (a *args) next(what string) (word, error) {
	if a.empty() {
		return word{}, fmt.Errorf("the line ends where %s was expected", what)
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w, nil
}

// text reads a word that has no attributes.
func (a *args) text(what string) (string, error) {
	w, err := a.next(what)
	if err == nil && w.braces {
		err = fmt.Errorf("%s was expected, %s has attributes", what, w)
	}
	return w.text, err
}

func (a *args) typeURL() (string, error) {
	w, err := a.next("a type")
	if err != nil {
		return "", err
	}
	return typeURL(w)
}

// until reads words up to the end or one of the keywords.
func (a *args) until(keywords []string) []word {
	n := slices.IndexFunc(a.words, func(w word) bool {
		return slices.ContainsFunc(keywords, w.is)
	})
	if n < 0 {
		n = len(a.words)
	}
	out := a.words[:n]
	a.words = a.words[n:]
	return out
}

// names reads plain names up to the end or one of the keywords.
func (a *args) names(keywords ...string) ([]string, error) {
	var names []string
	for _, w := range a.until(keywords) {
		if w.braces {
			return nil, fmt.Errorf("a name was expected, %s has attributes", w)
		}
		names = append(names, w.text)
	}
	return names, nil
}

func (a *args) duration() (time.Duration, error) {
	t, err := a.text("a duration")
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(t)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no duration like 300ms", t)
	}
	return d, nil
}

// done is an error if words are left.
func (a *args) done() error {
	if !a.empty() {
		return fmt.Errorf("%s was not expected here", a.words[0])
	}
	return nil
}
