package relay_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// cloudEvent is what the webhook of rollout.events gets.
type cloudEvent struct {
	SpecVersion, ID, Source, Type, Subject string
	Time                                   time.Time
	Data                                   struct {
		Key, Revision, Policy, Decision, State, Reason, By, Node string
		Step, Steps, Canaries, Affected                          int
		Share                                                    string
		Rejections                                               []struct {
			Client, Reason string
			Resources      []string
		}
	}
}

// inbox is a webhook that gets events over TLS.
type inbox struct {
	*httptest.Server
	ca string // file

	mu sync.Mutex
	// Guarded by mu.
	got  []cloudEvent
	text strings.Builder
}

func startInbox(t *testing.T) *inbox {
	t.Helper()
	i := &inbox{ca: filepath.Join(t.TempDir(), "ca.pem")}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var raw json.RawMessage
		var e cloudEvent
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil || r.URL.Path != "/hunter2" || r.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("%s %v: %v", r.URL, r.Header, err)
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Error(err)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.got = append(i.got, e)
		i.text.Write(raw)
	}))
	t.Cleanup(i.Close)
	if err := os.WriteFile(i.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// hears makes a configuration send events here.
func (i *inbox) hears(cfg *config.Config) {
	cfg.Rollout.Events.Webhook, cfg.Rollout.TLS.CAFile = i.URL+"/hunter2", i.ca
}

// waitFor waits for decisions about a key, and returns their events.
func (i *inbox) waitFor(t *testing.T, want ...string) (all []cloudEvent) {
	t.Helper()
	xdstest.Eventually(t, fmt.Sprintf("the events %q", want), func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		all = slices.Clone(i.got)
		return len(all) >= len(want)
	})
	var types []string
	ids := make(map[string]bool)
	for n, e := range all {
		types = append(types, strings.TrimPrefix(e.Type, "xdsrelay.rollout."))
		if ids[e.ID] || e.SpecVersion != "1.0" || e.Subject != "demo" || e.Data.Key != "demo" || e.Data.Decision != types[n] || e.Source != "/xdsrelay/nodes/"+e.Data.Node || n > 0 && e.Time.Before(all[n-1].Time) {
			t.Errorf("event %d: %+v", n, e)
		}
		ids[e.ID] = true
	}
	if !slices.Equal(types, want) {
		t.Errorf("events %q, expected %q", types, want)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = nil
	return all
}

// TestRolloutEvents: a webhook gets each decision about a key once and in order: of a rollout that passes, of
// one that a client rejects, and the orders of operators. It gets no content of resources, and no secret.
func TestRolloutEvents(t *testing.T) {
	i := startInbox(t)
	s := stageWith(t, config.Delta, 4, i.hears, nil)
	s.origin.Set("demo", s.revision("b")...)
	s.waitState("Idle")
	s.all("the revision", s.has("b"))
	all := i.waitFor(t, "started", "step", "passed", "step", "passed", "promoted", "passed")
	for n, step := range []int{0, 0, 0, 1, 1, 2, 2} {
		if d := all[n].Data; d.Step != step || d.Steps != 2 || d.Policy != "mine" || d.Node != "node-1" || !strings.HasPrefix(d.Revision, "r-") || d.Share != []string{"0%", "50%", "100%"}[step] {
			t.Errorf("%+v, expected step %d", d, step)
		}
	}
	if all[6].Data.State != "Idle" {
		t.Errorf("%+v", all[6])
	}

	s.origin.Set("demo", s.revision("poison")...)
	s.waitState("Held")
	all = i.waitFor(t, "started", "step", "failed")
	if d := all[2].Data; d.State != "Held" || d.Reason == "" || len(d.Rejections) == 0 || d.Rejections[0].Reason != "cluster poison: it is poison" || !slices.Contains(d.Rejections[0].Resources, "poison") {
		t.Errorf("%+v", d)
	}

	s.order("freeze", http.StatusOK)
	s.order("unfreeze", http.StatusOK)
	s.order("undo", http.StatusOK)
	all = i.waitFor(t, "freeze", "unfreeze", "undo")
	if d := all[2].Data; d.Reason != "test" || d.By == "" {
		t.Errorf("%+v", d)
	}
	xdstest.Eventually(t, "the metrics count 13 events", func() bool {
		_, text := s.get(t, "/metrics")
		return strings.Contains(text, `xdsrelay_rollout_events_total{result="delivered"} 13`) && strings.Contains(text, "xdsrelay_rollout_queued_events 0")
	})
	for _, hidden := range []string{"hunter2", "connect_timeout", "127.0.0.1:1"} {
		if strings.Contains(i.text.String(), hidden) {
			t.Errorf("an event has %s", hidden)
		}
	}
	s.noSecret()
}

// TestRolloutEventsWithoutReceiver: a webhook that never answers does not change a rollout.
func TestRolloutEventsWithoutReceiver(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	s := stageWith(t, config.SotW, 4, func(cfg *config.Config) { cfg.Rollout.Events.Webhook = silent.URL + "/hunter2" }, nil)
	s.origin.Set("demo", s.revision("b")...)
	s.all("the revision", s.has("b"))
	s.waitState("Idle")
	s.noSecret()
}

// TestTierRolloutEvents: in a tier, the webhook gets each decision once: from the owner of the key.
func TestTierRolloutEvents(t *testing.T) {
	i := startInbox(t)
	w := stageTierWith(t, config.Delta, 3, 4, -1, func(p *config.RolloutPolicy) { p.Mode = "manual" }, i.hears)
	w.origin.Set("demo", w.revision("b")...)
	for _, state := range []string{"Scouting Approval", "Stepping Approval", "Stepping Approval"} {
		w.waitState(state)
		w.order("approve", http.StatusOK)
	}
	w.all("the revision", w.has("b"))
	w.waitState("Idle")
	for _, e := range i.waitFor(t, "started", "waiting", "approve", "step", "passed", "waiting", "approve", "step", "passed", "waiting", "approve", "promoted", "passed") {
		if e.Data.Node != w.names[w.owner()] {
			t.Errorf("%s from %s, which does not own the key", e.Type, e.Data.Node)
		}
	}
}
