package relay_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// judges are a Prometheus server and a webhook that checks ask.
type judges struct {
	*httptest.Server

	mu sync.Mutex
	// Guarded by mu.
	fails   string // the check that fails after the scouts; empty for none
	queries []string
	asked   []webhookQuestion
}

type webhookQuestion struct {
	Key, Revision     string
	Step              int
	Canaries, Control struct {
		Clients int
		IDs     []string
	}
}

func startJudges(t *testing.T) *judges {
	t.Helper()
	j := &judges{}
	j.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if r.URL.Path == "/hook/hunter2" {
			var q webhookQuestion
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			j.asked = append(j.asked, q)
			answer := "pass"
			if j.fails == "smoke" && q.Step > 0 {
				answer = "fail"
			}
			_, _ = io.WriteString(w, `{"answer":"`+answer+`","reason":"tests"}`)
			return
		}
		query, value := r.PostFormValue("query"), "0.001"
		if j.fails == "slo" && !strings.Contains(query, `step="0"`) {
			value = "0.5"
		}
		j.queries = append(j.queries, query)
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"`+value+`"]}]}}`)
	}))
	t.Cleanup(j.Close)
	return j
}

// fail makes a check fail after the scouts.
func (j *judges) fail(check string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fails = check
}

// checks are those of a policy that asks them. The URLs have secrets.
func (j *judges) checks(p *config.RolloutPolicy) {
	at := strings.Replace(j.URL, "://", "://me:hunter2@", 1)
	p.Checks = []config.RolloutCheck{
		{Name: "slo", Prometheus: at, Query: `e{k="{{key}}",step="{{step}}",pod=~"{{canaries}}"}`, Fail: "> 0.01", Every: time.Second, Timeout: xdstest.Patience, NoData: "wait"},
		{Name: "smoke", Webhook: at + "/hook/hunter2", Every: time.Second, Timeout: xdstest.Patience, NoData: "wait"},
	}
}

// noSecret fails if anything that operators see has a secret of a URL.
func (s *staged) noSecret() {
	s.t.Helper()
	for _, path := range []string{"/api/v1/rollout?key=demo", "/api/v1/rollout/history?key=demo", "/api/v1/live", "/api/v1/events", "/metrics"} {
		if _, text := s.get(s.t, path); strings.Contains(text, "hunter2") {
			s.t.Errorf("%s has a secret: %s", path, text)
		}
	}
	if s.log.count("hunter2") > 0 {
		s.t.Error("the log has a secret")
	}
}

// TestPolicyChecks: a revision for which a query and a webhook pass reaches all clients; both are asked about
// its canaries. One for which either fails in a step is taken back, and held.
func TestPolicyChecks(t *testing.T) {
	j := startJudges(t)
	s := stage(t, config.Delta, 4, j.checks)
	s.origin.Set("demo", s.revision("b")...)
	s.all("the revision", s.has("b"))
	s.waitState("Idle")
	j.mu.Lock()
	if !slices.ContainsFunc(j.queries, func(q string) bool { return strings.HasPrefix(q, `e{k="demo",step="1",pod=~"client-`) }) {
		t.Errorf("queries: %q", j.queries)
	}
	steps := make(map[int]bool)
	for _, q := range j.asked {
		steps[q.Step] = true
		if q.Key != "demo" || !strings.HasPrefix(q.Revision, "r-") || len(q.Canaries.IDs) == 0 || q.Step < 2 && slices.Contains(q.Control.IDs, q.Canaries.IDs[0]) {
			t.Errorf("asked %+v", q)
		}
	}
	if len(steps) != 3 {
		t.Errorf("asked in the steps %v", steps)
	}
	j.mu.Unlock()
	refused := 0
	for check, why := range map[string]string{"slo": "check slo: fail, the value is 0.5", "smoke": "check smoke: fail, tests"} {
		j.fail(check)
		s.origin.Set("demo", s.revision(check)...)
		refused++
		var is ops.RolloutProgress
		xdstest.Eventually(t, check+" ends the rollout", func() bool {
			is = s.status()
			return is.State == "Held" && len(is.Refused) == refused
		})
		if !slices.ContainsFunc(is.Findings, func(f string) bool { return strings.HasPrefix(f, why) }) {
			t.Errorf("%q, expected %s", is.Findings, why)
		}
		s.all("the stable revision", s.has("b"))
	}
	if _, text := s.get(t, "/metrics"); !strings.Contains(text, `xdsrelay_rollout_check_answers_total{answer="fail",system="webhook"}`) || !strings.Contains(text, `xdsrelay_rollout_verdicts_total{outcome="fail",signal="check"} 2`) {
		t.Errorf("metrics: %s", text)
	}
	s.noSecret()
	s.check()
}

// TestPolicyChecksDown: while the systems that checks ask are down, the scouts alone have the revision. The
// status, the log and a metric say why.
func TestPolicyChecksDown(t *testing.T) {
	j := startJudges(t)
	s := stage(t, config.Delta, 10, j.checks)
	j.Close()
	s.origin.Set("demo", s.revision("b")...)
	xdstest.Eventually(t, "a check was asked several times", func() bool {
		_, text := s.get(t, "/metrics")
		return answers(text, "unreachable", "prometheus") >= 3
	})
	is := s.waitState("Scouting Bake")
	if is.Waits != "not enough data" || !slices.ContainsFunc(is.Findings, func(f string) bool {
		return strings.HasPrefix(f, "check slo: not enough data, ") && strings.Contains(f, "connection refused")
	}) {
		t.Errorf("%+v", is)
	}
	if n := s.count(s.has("b")); n > 2 {
		t.Errorf("%d clients have the revision, expected the 2 scouts", n)
	}
	if n := s.log.count("a check of a rollout has no answer"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	s.noSecret()
	s.order("abort", http.StatusOK)
	s.waitState("Held")
	s.check()
}

// TestTierChecks: in a tier, the owner of a key alone asks, and its questions name clients of all nodes.
func TestTierChecks(t *testing.T) {
	j := startJudges(t)
	w := stageTier(t, config.Delta, 3, 4, -1, func(p *config.RolloutPolicy) {
		j.checks(p)
		p.Steps[0].Bake = time.Hour
	})
	w.origin.Set("demo", w.revision("b")...)
	w.waitState("Stepping Bake")
	xdstest.Eventually(t, "a question names canaries and others of all nodes", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return slices.ContainsFunc(j.asked, func(q webhookQuestion) bool {
			return q.Step == 1 && q.Canaries.Clients >= 4 && len(q.Canaries.IDs) == q.Canaries.Clients && len(q.Control.IDs) == q.Control.Clients && onSeveralNodes(q.Canaries.IDs, q.Control.IDs)
		})
	})
	for i, n := range w.nodes {
		_, text := n.get(t, "/metrics")
		if got := answers(text, "pass", "webhook"); (got > 0) != (i == w.owner()) {
			t.Errorf("%s has asked %v times", w.names[i], got)
		}
	}
	j.fail("smoke")
	w.waitState("Held")
	w.all("the stable revision", w.has("a"))
	w.checkAll()
}

// answers are those of systems that metrics have.
func answers(metrics, answer, system string) (n int) {
	_, rest, _ := strings.Cut(metrics, `xdsrelay_rollout_check_answers_total{answer="`+answer+`",system="`+system+`"} `)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ = strconv.Atoi(line)
	return n
}

// onSeveralNodes reports whether ids of a [stagedTier] are those of clients of several nodes.
func onSeveralNodes(arms ...[]string) bool {
	nodes := make(map[string]bool)
	for _, id := range slices.Concat(arms...) {
		nodes[strings.Split(id, "-")[1]] = true
	}
	return len(nodes) > 1
}
