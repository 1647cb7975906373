package ops

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"xdsrelay/relay/resource"
)

// FuzzQuery: whatever parameters somebody asks with are refused or understood, within
// bounds, and another node understands the same.
func FuzzQuery(f *testing.F) {
	page := token(cursor{After: at{Name: "n", Key: "k"}, Silent: []Silent{{Node: "b", Error: "gone"}}})
	for _, text := range []string{
		"", "client=n&prefix=x&key=k&node=a", "state=synced,Not-Sent&type=CDS&limit=7&resources=3", "page=" + page, "page=!", "limit=-1",
		`after={"n":"a"}`, "after=null", "state=,", "type=%00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseQuery(v)
		if err != nil {
			return
		}
		if q.Limit < 1 || q.Limit > largestPage || q.Resources < 0 || q.Resources > maxResources {
			t.Errorf("a page of %d clients with %d resources", q.Limit, q.Resources)
		}
		asked, err := ParseQuery(q.values())
		q.Node, q.silent = "", nil // which are not passed on
		if err != nil || !reflect.DeepEqual(asked, q) {
			t.Errorf("%+v becomes %+v, %v", q, asked, err)
		}
	})
}

// FuzzWho: whatever somebody asks about a resource is refused or understood, within bounds, and another node
// understands the same. A pattern finds what it was made of.
func FuzzWho(f *testing.F) {
	page := token(whoCursor{&whoRank{rank: rank{Group: -6, Since: 7, At: at{Name: "n"}}, URL: "u", Name: "r"}, []Silent{{Node: "b"}}})
	for _, text := range []string{
		"resource=a", "resource=a*b*&type=CDS&key=k&state=nacked&limit=7", "resource=*&page=" + page, "resource=a&page=e30", `resource=**&after={"u":"x"}`, "resource=xdstp://a/b/*?x=1",
	} {
		f.Add(text, "some-name")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseWho(v)
		if err != nil {
			return
		}
		if q.Limit < 1 || q.Limit > largestPage || len(q.Resource) > maxResourceName {
			t.Errorf("a page of %d clients for a name of %d bytes", q.Limit, len(q.Resource))
		}
		asked, err := ParseWho(q.values())
		q.silent = nil // which is not passed on
		if err != nil || !reflect.DeepEqual(asked, q) {
			t.Errorf("%+v becomes %+v, %v", q, asked, err)
		}
		p := newPattern(q.Resource)
		if p.match(name) && p.parts == nil && name != resource.Canonical(q.Resource) {
			t.Errorf("%q finds %q", q.Resource, name)
		}
		if p.parts != nil && !p.match(strings.ReplaceAll(q.Resource, "*", name)) {
			t.Errorf("%q does not find itself with %q", q.Resource, name)
		}
	})
}

// TestPattern: * matches any text, and all else itself.
func TestPattern(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "x/y", true}, {"a*", "a", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"a*a", "a", false},
		{"a*a", "aa", true}, {"a*b*c", "a-b-c", true}, {"a*b*c", "a-c", false}, {"a**c", "ac", true}, {"[ab]", "a", false}, {"a?", "ab", false},
	} {
		if p := newPattern(tc.pattern); p.match(tc.name) != tc.want {
			t.Errorf("%q and %q: %v", tc.pattern, tc.name, !tc.want)
		}
	}
}
