package ops

import (
	"net/url"
	"reflect"
	"testing"
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
