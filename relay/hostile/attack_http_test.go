package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
)

// https are attacks on the ports that speak plain HTTP: that for polls, and that for
// operators.
var https = []attack{
	{name: "polls: bodies that are too large, too deep, or no JSON", run: badPolls},
	{name: "polls: bodies that do not end", run: slowPolls},
	{name: "polls: many at once", run: manyPolls},
	{name: "operators' port: other sites", run: otherSites},
	{name: "operators' port: large and slow requests", run: badOrders},
}

// post sends a request and returns the status and the answer.
func post(t *testing.T, url string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: xdstest.Patience}
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error() // the server does not read what is too large to its end
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

const poll = `{"node":{"id":"x","cluster":"key-00000"},"type_url":"type.googleapis.com/envoy.config.cluster.v3.Cluster"`

func badPolls(t *testing.T, s *stage) {
	url := "http://" + s.REST + "/v3/discovery:clusters"
	deep := strings.Repeat("[", 300_000)
	for _, tc := range []struct {
		body string
		code int
		word string
	}{
		{poll + `,"fill":"` + strings.Repeat("x", size(3<<20, 100<<20)) + `"}`, http.StatusRequestEntityTooLarge, "more than"},
		{poll + `,"unknown":` + deep, http.StatusTooManyRequests, "values"},
		{poll + `,"unknown":` + strings.Repeat(`{"a":`, 900), http.StatusBadRequest, "JSON"},
		{poll + `,"unknown":` + strings.Repeat(`{"a":`, 15_000), http.StatusTooManyRequests, "values"},
		{`{"node":{"metadata":{"a":` + deep[:15_000], http.StatusBadRequest, "JSON"},
		{`{"node":{"metadata":` + strings.Repeat(`{"a":`, 15_000) + "1" + strings.Repeat("}", 15_000) + "}}", http.StatusBadRequest, "JSON"},
		{`{"node":{"metadata":{"a":[` + strings.Repeat("[],", 300_000) + `0]}}}`, http.StatusTooManyRequests, "values"},
		{deep, http.StatusTooManyRequests, "values"},
		{"\x00\xff\xfe", http.StatusBadRequest, "JSON"},
		{poll + `,"resource_names":["` + strings.Join(some(0, maxNames+1), `","`) + `"]}`, http.StatusTooManyRequests, fmt.Sprint(maxNames)},
		{poll + `,"resource_names":["` + strings.Repeat(`x","`, 100_000) + `"]}`, http.StatusTooManyRequests, fmt.Sprint(maxNames)},
	} {
		got, text := post(t, url, strings.NewReader(tc.body))
		if got != tc.code && (tc.code != http.StatusRequestEntityTooLarge || got != 0) || got != 0 && !strings.Contains(text, tc.word) {
			t.Errorf("%.60s…: %d %.200s, expected %d and %q", tc.body, got, text, tc.code, tc.word)
		}
	}
	if got, text := post(t, url, strings.NewReader(poll+"}"), "Origin", "http://evil.example"); got != http.StatusForbidden {
		t.Errorf("from a web page: %d %s", got, text)
	}
	if got, text := post(t, url, bytes.NewReader(gzipOf(t, 8<<20)), "Content-Encoding", "gzip"); got != http.StatusBadRequest {
		t.Errorf("a gzip bomb: %d %s", got, text)
	}
	if got, text := post(t, url, strings.NewReader(poll+"}"), "X-Fill", strings.Repeat("h", 1<<20)); got != http.StatusRequestHeaderFieldsTooLarge && got != 0 {
		t.Errorf("a large header: %d %s", got, text)
	}
}

// slowPolls announces more than it sends.
func slowPolls(t *testing.T, s *stage) {
	var all []net.Conn
	for i := range size(100, 2000) {
		c, err := net.DialTimeout("tcp", s.REST, xdstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			_, _ = io.WriteString(c, "POST /v3/discovery:clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
		case 1:
			_, _ = io.WriteString(c, "POST /v3/discovery:clusters HTTP/1.1\r\nHo")
		case 2:
			_, _ = io.WriteString(c, "POST /v3/discovery:clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n{")
		}
		all = append(all, c)
	}
	changes := s.changes.Load()
	xdstest.Eventually(t, "some changes", func() bool { return s.changes.Load() > changes+3 || t.Failed() })
	for _, c := range all {
		if *full { // the port gives them ten seconds
			_ = c.SetReadDeadline(time.Now().Add(xdstest.Patience))
			if _, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Error("a slow request is still waited for")
			}
		}
		_ = c.Close()
	}
}

// manyPolls asks for ever new versions of ever new names of ever new keys.
func manyPolls(t *testing.T, s *stage) {
	url := "http://" + s.REST + "/v3/discovery:endpoints"
	done := make(chan struct{})
	const parallel = 20
	for p := range parallel {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range size(200, 10_000) / parallel {
				post(t, url, strings.NewReader(fmt.Sprintf(`{"node":{"id":"x","cluster":"polled-%d-%d"},"resource_names":["a-%d"]}`, p, i, i)))
			}
		}()
	}
	for range parallel {
		<-done
	}
}

// otherSites does what a web page can make its visitor's browser do.
func otherSites(t *testing.T, s *stage) {
	url := "http://" + s.Admin
	for _, tc := range []struct {
		path   string
		header []string
	}{
		{"/drain", nil},
		{"/drain", []string{"Content-Type", "text/plain", "Origin", "http://evil.example"}},
		{"/removals/approve?key=" + theKey, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"/tier/explain", []string{"Origin", "null"}},
		{"/drain", []string{"Host", "evil.example", "X-Xdsrelay-Request", "1"}},
		{"/removals/approve?key=" + theKey, []string{"Host", "evil.example:19000", "X-Xdsrelay-Request", "1"}},
		{"/client_status", []string{"Host", "evil.example"}},
	} {
		if got, text := post(t, url+tc.path, strings.NewReader("{}"), tc.header...); got != http.StatusForbidden && got != http.StatusNotFound {
			t.Errorf("POST %s %q: %d %s", tc.path, tc.header, got, text)
		}
	}
	for _, path := range []string{"/", "/debug/keys", "/debug/streams", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "rebound.example"
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("GET %s by another name: %d", path, res.StatusCode)
		}
	}
}

// badOrders sends the operators' port more than it wants.
func badOrders(t *testing.T, s *stage) {
	url := "http://" + s.Admin
	for _, path := range []string{"/tier/explain", "/client_status", "/v3/discovery:client_status"} {
		got, text := post(t, url+path, strings.NewReader(`{"node":"`+strings.Repeat("x", size(6<<20, 100<<20))), "X-Xdsrelay-Request", "1")
		if got != 0 && (got < 400 || got >= 500) {
			t.Errorf("a large body for %s: %d %.200s", path, got, text)
		}
		got, text = post(t, url+path, strings.NewReader(strings.Repeat(`{"node":`, 100_000)), "X-Xdsrelay-Request", "1")
		if got != 0 && (got < 400 || got >= 500) {
			t.Errorf("a deep body for %s: %d %.200s", path, got, text)
		}
	}
	var all []net.Conn
	// One address may have a part of the connections, so that operators at others go on.
	stranger := net.Dialer{Timeout: xdstest.Patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range size(50, 500) {
		c, err := stranger.Dial("tcp", s.Admin)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /tier/explain HTTP/1.1\r\nHost: localhost\r\nX-Xdsrelay-Request: 1\r\nContent-Length: 100\r\n\r\n{")
		all = append(all, c)
	}
	s.get(t, "/debug/keys")
	for _, c := range all {
		_ = c.Close()
	}
}

// gzipOf is so many zeros, compressed.
func gzipOf(t *testing.T, n int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, zeros{}, n); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
