package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/csds"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig shows a state that holds what might go wrong in an answer.
func testConfig() Config {
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "xdsrelay_test"})
	registry.MustRegister(gauge)
	return Config{
		Title: "xdsrelay v1 on <node>",
		Ready: func() error { return nil }, Reload: func() (ops.Settings, error) { return ops.Settings{}, nil },
		Keys: func() []cache.GroupInfo {
			return []cache.GroupInfo{
				{Key: "a", Clients: 3, Peers: 2, Connected: true, Since: time.Now().Add(-90 * time.Second), Tables: []cache.TableInfo{
					{TypeURL: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Version: "v7", Generation: 7, Resources: 2, Wildcard: true, Names: 1, Subscriptions: 1, Watchers: 3, Bytes: 100},
				}},
				{Key: "b", Idle: true, Error: "gone\x1b[2J"},
			}
		},
		Streams: func() []fanout.StreamInfo {
			return []fanout.StreamInfo{
				{NodeID: "n2\nn1 forged", Peer: "127.0.0.1:2", Key: "a", Variant: "delta", Service: "ads", Types: []fanout.TypeInfo{
					{TypeURL: "type.googleapis.com/envoy.config.cluster.v3.Cluster", State: fanout.Nacked, Sent: 7, Acked: 6, Head: 7, Nacks: 1, LastNack: &fanout.Nack{Message: "no"}},
				}},
				{NodeID: "n1", Peer: "127.0.0.1:1", Key: "a", Variant: "sotw", Service: "ads"},
			}
		},
		Origins: func() []ops.OriginInfo {
			return []ops.OriginInfo{
				{Name: "default", Kind: "directory", Where: []string{"/etc/xds"}, Problems: []string{"x.json: bad"}},
				{Name: "sds", Kind: "control plane", Where: []string{"sds:1"}, Variant: "delta", Types: []string{"Secret"}, Authorities: []string{""}, SeparateTypes: []string{"x.Y of key \"k\""}},
			}
		},
		ClientStatus: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "answer to %s", body)
		}),
		Check:    func() []string { return nil },
		Settings: func() ops.Settings { return ops.Settings{} },
		Levels:   logs.NewLevels(slog.LevelInfo),
		Metrics:  registry,
		Tier:     testTier(),
	}
}

// answer is a response that was read.
type answer struct {
	code   int
	header http.Header
	text   string
}

// serve serves a handler and returns a function that asks it.
func serve(t *testing.T, cfg Config) (ask func(method, path string, header ...string) answer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(Handler(cfg), slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return func(method, path string, header ...string) answer {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
			req.Header.Set(header[i], header[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{res.StatusCode, res.Header, string(body)}
	}
}

// TestClientStatus: who has what is asked for by a POST, which is on the index.
func TestClientStatus(t *testing.T) {
	ask := serve(t, testConfig())
	if res := ask("POST", csds.Path); res.code != http.StatusOK || res.text != "answer to " {
		t.Errorf("POST: %d %s", res.code, res.text)
	}
	if res := ask("GET", csds.Path); res.code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", res.code)
	}
	if res := ask("POST", csds.Path, "Host", "evil.example"); res.code != http.StatusForbidden {
		t.Errorf("POST through a name: %d", res.code)
	}
	if !strings.Contains(ask("GET", "/").text, csds.Path) {
		t.Error("it is not on the index")
	}
}

// TestPages holds that every page answers, is on the index, and only reads.
func TestPages(t *testing.T) {
	ask := serve(t, testConfig())
	index := ask("GET", "/").text
	if again := ask("GET", "/debug/").text; again != index {
		t.Error("/debug/ is not the index")
	}
	if !strings.Contains(index, "xdsrelay v1 on &lt;node&gt;") {
		t.Errorf("the index has no escaped title: %s", index)
	}
	for _, p := range pages(testConfig()) {
		link := p.link
		if link == "" {
			link = p.path
		}
		if !strings.Contains(index, `href="`+html.EscapeString(link)+`"`) || p.text == "" {
			t.Errorf("%s is not on the index", p.path)
		}
		if strings.Contains(link, "seconds=") {
			link = p.path + "?seconds=1"
		}
		want := http.StatusOK
		if strings.HasSuffix(link, "=NAME") { // nobody is called that
			want = http.StatusNotFound
		}
		res := ask("GET", link)
		if res.code != want {
			t.Errorf("GET %s: %d", link, res.code)
		}
		for _, header := range []string{"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Cache-Control"} {
			if res.header.Get(header) == "" {
				t.Errorf("GET %s: no %s", link, header)
			}
		}
		if code := ask("POST", link).code; code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", link, code)
		}
	}
	if code := ask("GET", "/debug/nothing").code; code != http.StatusNotFound {
		t.Errorf("an unknown page: %d", code)
	}
}

// TestTables holds what people see, and that no text of a client can forge a
// line or reach a terminal as a control sequence.
func TestTables(t *testing.T) {
	ask := serve(t, testConfig())
	for path, want := range map[string]string{
		"/debug/keys": `
KEY  STREAMS     UPSTREAM   SINCE  TYPE     VERSION  GENERATION  RESOURCES  WANTED  SUBSCRIPTIONS  WATCHERS  BYTES  ERROR
a    3 + 2 peer  connected  1m30s  Cluster  v7       7           2          *+1     1              3         100    -
b    0           idle       -      -        -        -           -          -       -              -         -      gone?[2J
`,
		"/debug/streams": `
NODE          PEER         KEY  VARIANT  SERVICE  SINCE  TYPE     STATE   SENT  ACKED  NEWEST  NAMES  VERSION  ACKS  NACKS  LAST NACK
n1            127.0.0.1:1  a    sotw     ads      -      -        -       -     -      -       -      -        -     -      -
n2?n1 forged  127.0.0.1:2  a    delta    ads      -      Cluster  NACKED  7     6      7       0      -        0     1      no
`,
		"/debug/streams?state=NACKED&key=a": `
NODE          PEER         KEY  VARIANT  SERVICE  SINCE  TYPE     STATE   SENT  ACKED  NEWEST  NAMES  VERSION  ACKS  NACKS  LAST NACK
n2?n1 forged  127.0.0.1:2  a    delta    ads      -      Cluster  NACKED  7     6      7       0      -        0     1      no
`,
		"/debug/upstreams": `
NAME     KIND           ADDRESS   VARIANT  AUTHORITIES  TYPES
default  directory      /etc/xds  -        -            all others
sds      control plane  sds:1     delta    ""           Secret
upstream default: x.json: bad
upstream sds, separate stream for: x.Y of key "k"
`,
		"/debug/check": "\nok\n",
	} {
		res := ask("GET", path, "Accept", "text/html,*/*")
		if kind := res.header.Get("Content-Type"); "\n"+res.text != want || !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s is %s\n%s\nwant%s", path, kind, res.text, want)
		}
	}
}

// TestJSON holds what programs see.
func TestJSON(t *testing.T) {
	ask := serve(t, testConfig())
	for _, tc := range []struct {
		path   string
		header []string
		want   string // a part of it, in compact form
	}{
		{"/debug/keys?format=json", nil, `"type_url":"type.googleapis.com/envoy.config.cluster.v3.Cluster","version":"v7","generation":7`},
		{"/debug/keys", []string{"Accept", "application/json"}, `"key":"b"`},
		{"/debug/keys?key=none&format=json", nil, `[]`},
		{"/debug/streams?format=json&node=n1", nil, `"node_id":"n1"`},
		{"/debug/upstreams?format=json", nil, `"problems":["x.json: bad"]`},
		{"/debug/check?format=json", nil, `{"ok":true,"problems":[]}`},
	} {
		res := ask("GET", tc.path, tc.header...)
		if kind := res.header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s is %s", tc.path, kind)
		}
		if compact := compactJSON(t, res.text); !strings.Contains(compact, tc.want) {
			t.Errorf("%s: %s, want %s", tc.path, compact, tc.want)
		}
	}
}

func compactJSON(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(text)
}

// TestTrouble holds that trouble is told by status code and reason.
func TestTrouble(t *testing.T) {
	cfg := testConfig()
	cfg.Ready = func() error { return errors.New("draining") }
	cfg.Check = func() []string { return []string{"key \"a\": one\x07", "two"} }
	ask := serve(t, cfg)
	if res := ask("GET", "/readyz"); res.code != http.StatusServiceUnavailable || res.text != "not ready: draining\n" {
		t.Errorf("/readyz: %d %q", res.code, res.text)
	}
	if res := ask("GET", "/healthz"); res.code != http.StatusOK || res.text != "ok\n" {
		t.Errorf("/healthz: %d %q", res.code, res.text)
	}
	if res := ask("GET", "/debug/check"); res.code != http.StatusInternalServerError || res.text != "key \"a\": one?\ntwo\n" {
		t.Errorf("/debug/check: %d %q", res.code, res.text)
	}
}

// TestHost holds that no web site can read the pages through a browser on this
// machine by pointing a name of its own here.
func TestHost(t *testing.T) {
	ask := serve(t, testConfig())
	for host, want := range map[string]int{
		"localhost": 200, "localhost:19000": 200, "127.0.0.1:1": 200, "[::1]:1": 200, "[::1]": 200, "10.0.0.1": 200,
		"evil.example": 403, "evil.example:19000": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		if code := ask("GET", "/debug/keys", "Host", host).code; code != want {
			t.Errorf("Host %s: %d, want %d", host, code, want)
		}
	}
}

// TestAgeIsNeverNegative: what another node says of itself may be of a clock that is ahead.
func TestAgeIsNeverNegative(t *testing.T) {
	now := time.Now()
	for _, text := range []string{age(now.Add(time.Hour)), Ago(now, now.Add(time.Hour))} {
		if text != "0s" {
			t.Errorf("an hour ahead is shown as %s", text)
		}
	}
}
