package rest

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"xdsrelay/fanout"
	"xdsrelay/fanout/authz"
	"xdsrelay/relay/authorize"
)

// growth returns how many bytes are allocated while f runs.
func growth(f func()) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// constant is what a poll of any size takes at both ends, with some margin, in bytes.
const constant = 1 << 20

// TestMemoryOfAPoll: whatever is in the largest poll, at most four times its size is allocated for
// it, and each list has its own bound.
func TestMemoryOfAPoll(t *testing.T) {
	w := newWorld(t, hold(-1))
	size := int(w.srv.cfg.MaxReceiveBytes)
	list := func(before, entry, after string) string {
		n := (size - len(before) - len(after)) / (len(entry) + 1)
		return before + strings.Repeat(entry+",", n-1) + entry + after
	}
	for name, test := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"names":         {list(`{"node":{"id":"n"},"resource_names":[`, `""`, `]}`), http.StatusTooManyRequests, "values"},
		"extensions":    {list(`{"node":{"id":"n","extensions":[`, `{}`, `]}}`), http.StatusTooManyRequests, "values"},
		"locators":      {list(`{"node":{"id":"n"},"resource_locators":[`, `{}`, `]}`), http.StatusTooManyRequests, "values"},
		"one name":      {`{"node":{"id":"n"},"resource_names":["` + strings.Repeat("x", size-100) + `"]}`, http.StatusServiceUnavailable, ""},
		"spaces":        {`{"node":{"id":"n"}}` + strings.Repeat(" ", size-100), http.StatusServiceUnavailable, ""},
		"unknown field": {`{"node":{"id":"n"},"x":"` + strings.Repeat("x", size-100) + `"}`, http.StatusServiceUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got *reply
			n := growth(func() { got = w.post(endpoints, test.body) })
			t.Logf("a poll of %d bytes takes %.2f times as many", len(test.body), float64(n)/float64(len(test.body)))
			if n > 4*len(test.body)+constant {
				t.Errorf("a poll of %d bytes takes %d, expected at most four times as many", len(test.body), n)
			}
			if got.status != test.status && test.says != "" || !strings.Contains(string(got.body), test.says) {
				t.Errorf("it is answered %d %.200s", got.status, got.body)
			}
		})
	}
	// Lists that are shorter than the list of names may be, of values that take more memory.
	few := func(before, entry, after string) string {
		return before + strings.Repeat(entry+",", 30_000) + entry + after
	}
	for name, body := range map[string]string{
		"extensions":    few(`{"node":{"id":"n","extensions":[`, `{}`, `]}}`),
		"spelled so":    few(`{"nod\u0065":{"id":"n","extensions":[`, `{}`, `]}}`),
		"locators":      few(`{"resource_locators":[`, `{}`, `],"node":{"id":"n"}}`),
		"error details": few(`{"node":{"id":"n"},"error_detail":{"details":[`, `{}`, `]}}`),
	} {
		n := growth(func() { w.fails(w.post(endpoints, body), http.StatusTooManyRequests, "more than") })
		if n > 4*len(body)+constant {
			t.Errorf("%s: a poll of %d bytes takes %d, expected at most four times as many", name, len(body), n)
		}
	}
}

// TestPollsOfTheUnauthorized: of a poll of an unauthorized client only the first 64 KiB are read,
// and they must contain the Node.
func TestPollsOfTheUnauthorized(t *testing.T) {
	policy, err := authorize.Compile([]authorize.Rule{{Name: "prod", Match: `listener == "" && node.cluster == "prod"`}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := authz.New(authz.Config{Policy: func() *authorize.Policy { return policy }})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, hold(-1), func(c *Config) { c.Gate = g })
	rest := `"x":"` + strings.Repeat("x", int(w.srv.cfg.MaxReceiveBytes)-1000) + `"`
	for name, test := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"denied":     {`{"node":{"id":"n","cluster":"dev"},` + rest + `}`, http.StatusForbidden, "prod"},
		"too late":   {`{` + rest + `,"node":{"id":"n","cluster":"prod"}}`, http.StatusBadRequest, "first 65536 bytes"},
		"authorized": {`{"node":{"id":"n","cluster":"prod"},` + rest + `}`, http.StatusServiceUnavailable, ""},
	} {
		var got *reply
		n := growth(func() { got = w.do(http.MethodPost, endpoints, struct{ io.Reader }{strings.NewReader(test.body)}) })
		if got.status != test.status && test.says != "" || !strings.Contains(string(got.body), test.says) {
			t.Errorf("%s: it is answered %d %.200s", name, got.status, got.body)
		}
		if test.says != "" && n > 4*fanout.FirstBytes+constant {
			t.Errorf("%s: %d bytes were taken, expected about %d", name, n, fanout.FirstBytes)
		}
	}
	w.has(w.post(endpoints, `{"node":{"id":"n","cluster":"prod"}}`))
}
