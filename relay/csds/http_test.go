package csds

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
)

// TestBrokenOff: an answer of which a part cannot be written never looks like the whole.
func TestBrokenOff(t *testing.T) {
	named := func(id string) *cache.Group { return &cache.Group{Key: "k", Node: &corev3.Node{Id: id}} }
	s := New(Config{
		Clients: func() []fanout.Client { return nil },
		Groups:  func() []*cache.Group { return []*cache.Group{named("a"), named("b\xff"), named("c")} },
	})
	w := httptest.NewRecorder()
	func() {
		defer func() {
			r := recover()
			if err, _ := r.(error); r != nil && !errors.Is(err, http.ErrAbortHandler) {
				panic(r)
			}
		}()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader("{}")))
	}()
	if text := w.Body.String(); w.Code == http.StatusOK && json.Valid([]byte(text)) && !strings.Contains(text, `"c"`) {
		t.Errorf("a part looks like the whole: %s", text)
	}
}
