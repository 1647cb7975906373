package hooks_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/hooks"
	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
)

// receiver is a webhook that gets events.
type receiver struct {
	*httptest.Server

	mu sync.Mutex
	// Guarded by mu.
	answer  func(w http.ResponseWriter, id string)
	got     []map[string]any // each attempt
	headers []http.Header
}

func receive(t *testing.T, start func(http.Handler) *httptest.Server) *receiver {
	t.Helper()
	r := &receiver{answer: func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNoContent) }}
	r.Server = start(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var event map[string]any
		if err := json.NewDecoder(req.Body).Decode(&event); err != nil || req.Method != http.MethodPost {
			t.Errorf("%s: %v", req.Method, err)
		}
		id, _ := event["id"].(string)
		r.mu.Lock()
		r.got, r.headers = append(r.got, event), append(r.headers, req.Header)
		answer := r.answer
		r.mu.Unlock()
		answer(w, id)
	}))
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(r.Close)
	return r
}

// answers makes the webhook answer something else from now on.
func (r *receiver) answers(with func(w http.ResponseWriter, id string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = with
}

// ids are those of the attempts about a key, in order.
func (r *receiver) ids(key string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.got {
		if e["subject"] == key {
			all = append(all, e["id"].(string))
		}
	}
	return all
}

// text is what is written at once by several goroutines.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *text) count(of string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.b.String(), of)
}

// sending runs a sender.
type sending struct {
	*hooks.Sender
	log text
	end func() // ends Run, and waits for that
}

func send(t *testing.T, target *hooks.Target) *sending {
	t.Helper()
	s := &sending{}
	s.Sender = hooks.NewSender(func() *hooks.Target { return target }, slog.New(slog.NewTextHandler(&s.log, nil)))
	s.run(t)
	return s
}

func (s *sending) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	s.end = func() { cancel(); <-done }
	t.Cleanup(s.end)
}

// logs waits for a text in the log, and fails unless it is there once.
func (s *sending) logs(t *testing.T, text string) {
	t.Helper()
	xdstest.Eventually(t, text, func() bool { return s.log.count(text) > 0 })
	if n := s.log.count(text); n != 1 {
		t.Errorf("the log has %q %d times", text, n)
	}
}

func (s *sending) send(key string, ids ...string) {
	for _, id := range ids {
		s.Send(&hooks.Event{
			ID: id, Source: "/xdsrelay/nodes/a", Type: "xdsrelay.rollout.step", Subject: key, Time: time.Unix(1435781451, 5).In(time.FixedZone("", 3600)),
			Data: map[string]int{"step": 1},
		})
	}
}

func (s *sending) waitFor(t *testing.T, what string, is func(hooks.Sent) bool) hooks.Sent {
	t.Helper()
	xdstest.Eventually(t, what, func() bool { return is(s.Sent()) })
	return s.Sent()
}

// TestEvent holds what is sent of an event: over TCP on loopback, and over TLS with an authority and a token of
// files.
func TestEvent(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(http.Handler) *httptest.Server
	}{{"plain", httptest.NewServer}, {"TLS", httptest.NewTLSServer}} {
		t.Run(c.name, func(t *testing.T) {
			r := receive(t, c.start)
			write := func(name, text string) string {
				path := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			cfg, token := hooks.Config{}, write("token", "a-token-of-a-test\n")
			if cfg.TokenFiles = []string{token}; r.Certificate() != nil {
				cfg.TLS = secure.Config{CAFile: write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})))}
			}
			s := send(t, &hooks.Target{Client: client(t, cfg), URL: r.URL + "/hook?of=x", TokenFile: token, Timeout: time.Minute})
			s.send("shop/eu", "1", "2")
			s.waitFor(t, "the events", func(is hooks.Sent) bool { return is == hooks.Sent{Delivered: 2} })
			want := map[string]any{
				"specversion": "1.0", "id": "1", "source": "/xdsrelay/nodes/a", "type": "xdsrelay.rollout.step", "subject": "shop/eu", "time": "2015-07-01T20:10:51.000000005Z",
				"datacontenttype": "application/json", "data": map[string]any{"step": 1.0},
			}
			if fmt.Sprint(r.got[0]) != fmt.Sprint(want) {
				t.Errorf("%v, expected %v", r.got[0], want)
			}
			if h := r.headers[0]; h.Get("Content-Type") != "application/cloudevents+json" || h.Get("Authorization") != "Bearer a-token-of-a-test" || h.Get("User-Agent") != "xdsrelay" {
				t.Errorf("%v", h)
			}
		})
	}
}

// TestUntrusted: an event is not sent to a webhook that cannot prove its name.
func TestUntrusted(t *testing.T) {
	r := receive(t, httptest.NewTLSServer)
	s := send(t, &hooks.Target{Client: client(t, hooks.Config{}), URL: strings.Replace(r.URL, "://", "://me:hunter2@", 1), Timeout: time.Minute})
	s.send("shop", "1")
	s.waitFor(t, "a failure", func(is hooks.Sent) bool { return is.Retries > 0 })
	s.logs(t, "the certificate is not valid")
	if len(r.ids("shop")) > 0 || s.log.count("hunter2") > 0 {
		t.Errorf("sent %v", r.ids("shop"))
	}
}

// TestRetries: while the webhook refuses, each event is sent again with the same ID, in the order of its key;
// another key does not wait for it. The log has the outage once.
func TestRetries(t *testing.T) {
	r := receive(t, httptest.NewServer)
	refused := 0
	r.answers(func(w http.ResponseWriter, id string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if id == "1" && refused < 2 {
			refused++
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s := send(t, &hooks.Target{Client: client(t, hooks.Config{}), URL: r.URL, Timeout: time.Minute})
	s.send("shop", "1", "2", "3")
	var others []string
	for i := range 20 { // some of them have another lane
		others = append(others, fmt.Sprint("other-", i))
		s.send(others[i], "x")
	}
	is := s.waitFor(t, "all events", func(is hooks.Sent) bool { return is.Delivered == 23 })
	if want := []string{"1", "1", "1", "2", "3"}; !slices.Equal(r.ids("shop"), want) || is != (hooks.Sent{Delivered: 23, Retries: 2}) {
		t.Errorf("sent %v, expected %v; %+v", r.ids("shop"), want, is)
	}
	for _, text := range []string{"does not accept events", "HTTP status 503", "answers again"} {
		s.logs(t, text)
	}
	r.mu.Lock()
	last := r.got[slices.IndexFunc(r.got, func(e map[string]any) bool { return e["subject"] == "shop" && e["id"] == "2" }):]
	r.mu.Unlock()
	if slices.ContainsFunc(last, func(e map[string]any) bool { return e["id"] == "1" }) {
		t.Error("the second event overtook the first")
	}
}

// TestRejected: an event that the webhook cannot take is not sent again, and those behind it are.
func TestRejected(t *testing.T) {
	r := receive(t, httptest.NewServer)
	r.answers(func(w http.ResponseWriter, id string) {
		switch id {
		case "bad":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case "large": // an answer that is not read does not count against the event
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	})
	s := send(t, &hooks.Target{Client: client(t, hooks.Config{}), URL: r.URL, Timeout: time.Minute})
	s.send("shop", "bad", "large", "good")
	s.Send(&hooks.Event{ID: "huge", Subject: "shop", Data: strings.Repeat("x", 1<<20)})
	s.waitFor(t, "all events", func(is hooks.Sent) bool { return is == hooks.Sent{Delivered: 2, Rejected: 2} })
	if want := []string{"bad", "large", "good"}; !slices.Equal(r.ids("shop"), want) || s.log.count("rejected an event") != 2 {
		t.Errorf("sent %v, expected %v", r.ids("shop"), want)
	}
}

// TestSilent: while the webhook never answers, sending does not block, the queue is bounded, the oldest
// events are dropped, and the log has that once. The newest arrive in order when it answers again.
func TestSilent(t *testing.T) {
	r := receive(t, httptest.NewServer)
	release := make(chan struct{})
	r.answers(func(http.ResponseWriter, string) { <-release })
	s := send(t, &hooks.Target{Client: client(t, hooks.Config{}), URL: r.URL, Timeout: 100 * time.Millisecond})
	const sent, room = 2000, 512
	s.send("shop", "0")
	xdstest.Eventually(t, "the first attempt", func() bool { return len(r.ids("shop")) > 0 })
	for i := 1; i < sent; i++ {
		s.send("shop", fmt.Sprint(i))
	}
	is := s.waitFor(t, "a failure", func(is hooks.Sent) bool { return is.Retries > 0 })
	if is.Queued != room || is.Dropped != sent-room-1 {
		t.Errorf("%+v", is)
	}
	s.logs(t, "events of rollouts are dropped")
	s.logs(t, "no answer within 100ms")
	r.answers(func(http.ResponseWriter, string) {})
	close(release)
	is = s.waitFor(t, "the newest events", func(is hooks.Sent) bool { return is.Queued == 0 && is.Delivered+is.Dropped == sent })
	ids := slices.Compact(r.ids("shop")) // one that was accepted late is sent again
	for i, id := range ids[len(ids)-room:] {
		if id != fmt.Sprint(sent-room+i) {
			t.Fatalf("event %d is %s, of %+v", i, id, is)
		}
	}
}

// TestEnd: a sender that ends sends what is queued once more, and does not wait for a webhook that never
// answers.
func TestEnd(t *testing.T) {
	r := receive(t, httptest.NewServer)
	began, release := make(chan struct{}, 10), make(chan struct{})
	r.answers(func(http.ResponseWriter, string) { began <- struct{}{}; <-release })
	target := &hooks.Target{Client: client(t, hooks.Config{}), URL: r.URL, Timeout: xdstest.Patience}
	s := &sending{Sender: hooks.NewSender(func() *hooks.Target { return target }, slog.New(slog.DiscardHandler))}
	s.EndWithin(xdstest.Patience)
	s.run(t)
	s.send("shop", "1", "2", "3")
	<-began
	r.answers(func(http.ResponseWriter, string) {})
	s.end()
	if want := []string{"1", "1", "2", "3"}; !slices.Equal(r.ids("shop"), want) || s.Sent().Delivered != 3 {
		t.Errorf("sent %v, expected %v; %+v", r.ids("shop"), want, s.Sent())
	}
	r.answers(func(http.ResponseWriter, string) { began <- struct{}{}; <-release })
	s = send(t, target)
	s.send("shop", "4", "5")
	<-began
	s.end()
	if is := s.Sent(); is != (hooks.Sent{Dropped: 2}) {
		t.Errorf("%+v", is)
	}
	close(release)
}

// TestOff: without a webhook nothing is queued.
func TestOff(t *testing.T) {
	s := send(t, nil)
	s.send("shop", "1")
	if is := s.Sent(); is != (hooks.Sent{}) {
		t.Errorf("%+v", is)
	}
}
