package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/rollout"
)

// Rollout configures the staged release of changes.
type Rollout struct {
	// The percentages of all clients that may have changes of any keys before the first
	// bake of those is over. At least one client may. The first percentage applies to
	// each change of the control plane, which may reach the keys within 10s, until a bake
	// of it ends without a failure; then the next one. It applies again after a failure.
	Budget []string `yaml:"budget"`
	// Stops the start of rollouts after several failures.
	Breaker RolloutBreaker `yaml:"breaker"`
	// TLS to the systems that checks ask, and to the webhook of events. It applies to URLs
	// with https://.
	TLS RolloutTLS `yaml:"tls"`
	// Reports what happens to rollouts to another system, as CloudEvents.
	Events RolloutEvents `yaml:"events"`
	// The policies that aggregation rules refer to, in addition to the presets quick (1%,
	// then all clients), standard (the defaults of a policy) and careful (an operator
	// approves the step to 10%). A policy with the name of a preset replaces it. A rollout
	// in progress keeps the policy that it started with.
	Policies []RolloutPolicy `yaml:"policies"`
}

// RolloutBreaker stops the start of rollouts.
type RolloutBreaker struct {
	// The number of failed rollouts within the time after which none starts until an
	// operator resumes them. From 0, which turns the breaker off, to 1000.
	Failures int `yaml:"failures" range:"0..1000"`
	// The time in which failures are counted.
	Within time.Duration `yaml:"within"`
}

// RolloutTLS is how the relay connects to the systems that checks ask, and to the webhook of events. Files
// are in PEM form, and read again when they change.
type RolloutTLS struct {
	// The certificate that this node presents, with its intermediates.
	CertFile string `yaml:"cert_file"`
	// The private key of the certificate.
	KeyFile string `yaml:"key_file"`
	// The authorities that must have issued the certificates of these systems. Empty means
	// the system authorities. A certificate must be for the host of the URL.
	CAFile string `yaml:"ca_file"`
	// The lowest version of TLS: "1.3" or "1.2".
	MinVersion TLSVersion `yaml:"min_version"`
}

// RolloutEvents is where the relay sends what happens to rollouts.
type RolloutEvents struct {
	// The URL to which the node that decides about a key posts each decision: a CloudEvent
	// in JSON. Like https://ci.example/rollouts. Empty turns this off.
	Webhook string `yaml:"webhook"`
	// A file with a token that the relay sends as Authorization: Bearer, of at least 16
	// bytes. It is read again when it changes.
	TokenFile string `yaml:"token_file"`
	// Permits a URL with http:// that is not on this machine. Anyone in its network can
	// then read the events and the token.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// How long the webhook may take to accept an event. After that, and after errors, the
	// relay tries again with backoff.
	Timeout time.Duration `yaml:"timeout" range:"100ms..5m"`
}

// RolloutPolicy is how changes are released.
type RolloutPolicy struct {
	// The name that aggregation rules refer to: letters, digits, - and _. Required and
	// unique.
	Name string `yaml:"name"`
	// Mode automatic holds changes back and releases them step by step. Mode manual also
	// waits for an operator before each step. Mode observe holds nothing back: the status,
	// the log and the metrics report what mode automatic would have done, which shows
	// whether steps and fail_if fit before they count. Mode off has no effect. Modes
	// automatic and manual require last_known_good.store, and in a tier tier.redis.
	Mode RolloutMode `yaml:"mode"`
	// The types whose changes are released step by step: LDS, SRDS, RDS, CDS, ECDS, RTDS
	// and SDS, or type URLs. Endpoints, virtual hosts on demand, private types and
	// resources with a TTL always pass at once, and so does a resource requested by name
	// that did not exist. SDS delays the renewal of certificates.
	Types []string `yaml:"types"`
	// When changes are combined into one revision.
	Settle RolloutSettle `yaml:"settle"`
	// The clients that receive a revision before the first step.
	Scouts RolloutScouts `yaml:"scouts"`
	// The steps, each with a larger share of the clients than the one before. All clients
	// follow after the last one. From 1 to 20. Defaults to 1% for 2m, 10% for 5m and 50%
	// for 5m.
	Steps []RolloutStep `yaml:"steps"`
	// How long all clients must stay well with a revision before it becomes last known
	// good. At most 168h.
	FinalBake time.Duration `yaml:"final_bake"`
	// The clients that may receive a revision early.
	Canaries RolloutCanaries `yaml:"canaries"`
	// What fails a step. 0 turns a signal off.
	FailIf RolloutFailIf `yaml:"fail_if"`
	// Questions to other systems, at most 16. Each must pass before a step is over, and one
	// that fails ends the rollout. The node that decides about a key asks when a step
	// begins, at an interval, and when its bake is over.
	Checks []RolloutCheck `yaml:"checks"`
	// What a failure does: rollback returns canaries to the stable revision; hold leaves
	// them as they are until an operator decides. No other client receives the revision.
	OnFail RolloutOnFail `yaml:"on_fail"`
	// What a newer revision does during a rollout: restart replaces the older one and
	// starts from scouts; wait waits for the end of the rollout.
	Newer RolloutNewer `yaml:"newer"`
	// What the control plane gets about the changes of the types.
	Upstream RolloutUpstream `yaml:"upstream"`
	// How long a rollout may take before its status reports it as overdue. It releases
	// nothing by itself. At least the sum of all bakes, at most 720h.
	Longest time.Duration `yaml:"longest"`
}

// RolloutSettle is when changes are combined into one revision.
type RolloutSettle struct {
	// How long the control plane must send no change. From 10ms to 1m.
	Quiet time.Duration `yaml:"quiet"`
	// How long the relay waits for that after the first change. From quiet to 10m.
	Max time.Duration `yaml:"max"`
}

// RolloutScouts are the clients that receive a revision before the first step.
type RolloutScouts struct {
	// A CEL expression of type string over node, peer and listener. One client for each
	// value is a scout, or several if no client sees all types that change. Empty means
	// the name and version of the client software.
	By string `yaml:"by"`
	// The largest number of scouts. From 1 to 100.
	Most int `yaml:"most"`
}

// RolloutStep is a step of a rollout.
type RolloutStep struct {
	// The percentage of the affected clients, at least one client. More than 0%, less
	// than 100% and more than that of the step before. Required.
	Share rollout.Share `yaml:"share"`
	// How long these clients must stay well. From 1s to 168h.
	Bake time.Duration `yaml:"bake"`
	// Waits for an operator before this step.
	Approve bool `yaml:"approve"`
}

// RolloutCanaries are the clients that may receive a revision early.
type RolloutCanaries struct {
	// A CEL expression of type bool over node, peer and listener: which clients may be
	// canaries. Empty means all. A client for which it fails is no canary.
	Match string `yaml:"match"`
	// A CEL expression of type string over node, peer and listener. The relay takes one
	// client of each value first. Empty means no groups.
	Spread string `yaml:"spread"`
	// A CEL expression of type bool over node, peer and listener: which clients are never
	// canaries, even if they match. A client for which it fails is no canary.
	Never string `yaml:"never"`
	// With fewer affected clients than this, all of them follow after scouts and one bake.
	Small int `yaml:"small"`
}

// RolloutFailIf is what fails a step.
type RolloutFailIf struct {
	// The number of canaries that reject a revision.
	NACKs int `yaml:"nacks"`
	// Canaries that do not answer.
	Unanswered RolloutUnanswered `yaml:"unanswered"`
	// Canaries whose streams end, other than by the relay.
	Lost RolloutLost `yaml:"lost"`
	// Failed requests of canaries, from load reports (LRS).
	Errors RolloutErrors `yaml:"errors"`
}

// RolloutUnanswered is when missing answers fail a step.
type RolloutUnanswered struct {
	// The number of canaries without an answer.
	Clients int `yaml:"clients"`
	// How long a canary may take to answer. From 100ms to 1h.
	Within time.Duration `yaml:"within"`
}

// RolloutLost is when lost canaries fail a step.
type RolloutLost struct {
	// The number of lost canaries.
	Clients int `yaml:"clients"`
	// The factor by which more canaries must be lost than clients of the control group,
	// which is as large. At least 1.
	TimesControl float64 `yaml:"times_control"`
}

// RolloutUpstream is what the control plane gets about the changes of the types.
type RolloutUpstream struct {
	// When the relay answers a response with changes that it holds back: scouts waits until
	// scouts have answered, which makes it an ACK or a NACK, and sends no other request of
	// the type meanwhile; stored sends an ACK at once. With mode manual it is sent at once.
	Answer RolloutAnswer `yaml:"answer"`
	// How long the answer waits for scouts at most. From 0s to 900ms.
	Within time.Duration `yaml:"within"`
	// Reports a revision that fails after the ACK with one more request: a NACK of the
	// newest response, with the resources, the reason and the number of clients. It is
	// sent once for each revision and type.
	LateNACK bool `yaml:"late_nack"`
}

// RolloutErrors is when failed requests fail a step.
type RolloutErrors struct {
	// The percentage by which the rate of failed requests of canaries must certainly exceed
	// that of the control group: with a confidence of 99.9%. With 0% and requests 0, load
	// reports fail no step.
	AboveControl rollout.Share `yaml:"above_control"`
	// The number of requests that the load reports of each group must have before they
	// are compared. Without so many, errors are not measured and fail nothing.
	Requests int `yaml:"requests"`
}

// RolloutCheck is a question to another system: either a query of Prometheus or a webhook.
type RolloutCheck struct {
	// The name in messages. Required and unique in the policy.
	Name string `yaml:"name"`
	// The URL of a Prometheus server, or of one with the same HTTP API; the relay adds
	// /api/v1/query. Like https://prometheus.example:9090.
	Prometheus string `yaml:"prometheus"`
	// A PromQL expression with one value. The relay fills in {{key}}, {{revision}} and
	// {{step}} in its strings, and after =~ and !~ also {{canaries}} and {{control}}: the
	// node IDs of at most 200 clients, as a regular expression.
	Query string `yaml:"query"`
	// The values that fail a step, like "> 0.01". Required with a query. Without a value, or
	// with several, the query has no data.
	Fail string `yaml:"fail"`
	// The URL to which the relay posts the question as JSON. The answer is JSON such as
	// {"answer": "fail", "reason": "smoke test 7"}, with pass, fail or wait.
	Webhook string `yaml:"webhook"`
	// A file with a token that the relay sends as Authorization: Bearer, of at least 16
	// bytes. It is read again when it changes.
	TokenFile string `yaml:"token_file"`
	// Permits a URL with http:// that is not on this machine. Anyone in its network can
	// then read the question, its token and give the answer.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// How long an answer may take. From 100ms to 5m.
	Timeout time.Duration `yaml:"timeout"`
	// The interval of questions during a step. From 1s to 1h.
	Every time.Duration `yaml:"every"`
	// What a missing answer means when the bake of a step is over: wait makes the step wait
	// for one; fail fails it. It never passes.
	NoData RolloutNoData `yaml:"no_data"`
}

// defaultCheck is a check before it is decoded.
func defaultCheck() RolloutCheck {
	p := (rollout.Policy{Checks: make([]rollout.Check, 1)}).WithDefaults()
	c := &p.Checks[0]
	return RolloutCheck{Timeout: c.Timeout, Every: c.Every, NoData: RolloutNoData(c.NoData)}
}

// defaultRollout has no policies.
func defaultRollout() Rollout {
	l := rollout.DefaultLimits()
	r := Rollout{Breaker: RolloutBreaker{Failures: l.Failures, Within: l.Within}, TLS: RolloutTLS{MinVersion: TLS13}, Events: RolloutEvents{Timeout: 10 * time.Second}}
	for _, s := range l.Shares {
		r.Budget = append(r.Budget, s.String())
	}
	return r
}

// DefaultRolloutPolicy returns the defaults of a policy: those of standard. It lacks a name.
func DefaultRolloutPolicy() RolloutPolicy {
	p := presetPolicy(rollout.Standard)
	p.Name = ""
	return p
}

// presetPolicy is the preset with a name, which must exist, as far as the configuration has its fields.
func presetPolicy(name string) RolloutPolicy {
	from := rollout.Preset(name)
	p := RolloutPolicy{
		Name: from.Name, Mode: RolloutMode(from.Mode), Types: from.Types, Settle: RolloutSettle(from.Settle),
		Scouts: RolloutScouts(from.Scouts), FinalBake: from.Final, OnFail: RolloutOnFail(from.OnFail),
		Newer: RolloutNewer(from.Newer), Upstream: RolloutUpstream{RolloutAnswer(from.Upstream.Answer), from.Upstream.Within, from.Upstream.LateNACK}, Longest: from.Longest,
		Canaries: RolloutCanaries{Match: from.Canaries.Match, Spread: from.Canaries.Spread, Never: from.Canaries.Never, Small: from.Canaries.Small},
		FailIf:   RolloutFailIf{from.FailIf.NACKs, RolloutUnanswered(from.FailIf.Unanswered), RolloutLost(from.FailIf.Lost), RolloutErrors{from.FailIf.Errors.AboveControl, int(from.FailIf.Errors.Requests)}},
	}
	if p.Scouts.By == rollout.SoftwareVersion {
		p.Scouts.By = ""
	}
	for _, s := range from.Steps {
		p.Steps = append(p.Steps, RolloutStep(s))
	}
	return p
}

// policy returns the policy in the form for rollouts.
func (p *RolloutPolicy) policy() *rollout.Policy {
	to := &rollout.Policy{
		Name: p.Name, Mode: rollout.Mode(p.Mode), Types: p.Types, Settle: rollout.Settle(p.Settle),
		Scouts: rollout.ScoutsOf{By: cmp.Or(p.Scouts.By, rollout.SoftwareVersion), Most: p.Scouts.Most},
		Final:  p.FinalBake, OnFail: rollout.OnFail(p.OnFail), Newer: rollout.Newer(p.Newer), Longest: p.Longest,
		Canaries: rollout.Canaries{Match: p.Canaries.Match, Spread: p.Canaries.Spread, Never: p.Canaries.Never, Small: p.Canaries.Small},
		FailIf:   rollout.FailIf{NACKs: p.FailIf.NACKs, Unanswered: rollout.Unanswered(p.FailIf.Unanswered), Lost: rollout.Lost(p.FailIf.Lost), Errors: rollout.Errors{AboveControl: p.FailIf.Errors.AboveControl, Requests: uint64(max(p.FailIf.Errors.Requests, 0))}},
		Upstream: rollout.Upstream{Answer: rollout.Answer(p.Upstream.Answer), Within: p.Upstream.Within, LateNACK: p.Upstream.LateNACK},
	}
	for _, s := range p.Steps {
		to.Steps = append(to.Steps, rollout.Step(s))
	}
	for _, c := range p.Checks {
		to.Checks = append(to.Checks, rollout.Check{
			Name: c.Name, Prometheus: c.Prometheus, Query: c.Query, Fail: c.Fail, Webhook: c.Webhook, TokenFile: c.TokenFile,
			AllowPlaintext: c.AllowPlaintext, Timeout: c.Timeout, Every: c.Every, NoData: rollout.NoData(c.NoData),
		})
	}
	return to
}

// limits are the budget and the breaker, and for each share that is none its position and why.
func (r *Rollout) limits() (l rollout.Limits, mistakes map[int]error) {
	l = rollout.Limits{Failures: r.Breaker.Failures, Within: r.Breaker.Within}
	for i, text := range r.Budget {
		s, err := rollout.ParseShare(text)
		if err != nil {
			if mistakes == nil {
				mistakes = make(map[int]error)
			}
			mistakes[i] = err
		}
		l.Shares = append(l.Shares, s)
	}
	return l, mistakes
}

// named returns the policy with a name: a listed one, or else a preset. index is -1 for a preset.
func (r *Rollout) named(name string) (p RolloutPolicy, index int, ok bool) {
	for i := range r.Policies {
		if r.Policies[i].Name == name {
			return r.Policies[i], i, true
		}
	}
	if rollout.Preset(name) == nil {
		return RolloutPolicy{}, -1, false
	}
	return presetPolicy(name), -1, true
}

// RolloutPolicies returns the policies of the aggregation rules, with compiled expressions. A valid
// configuration has no error.
func (c *Config) RolloutPolicies() (*rollout.Policies, error) {
	env, err := aggregation.NewEnv(0)
	if err != nil {
		return nil, err
	}
	limits, mistakes := c.Rollout.limits()
	for i, err := range mistakes {
		return nil, fmt.Errorf("rollout.budget[%d]: %w", i, err)
	}
	all := &rollout.Policies{Limits: limits}
	for i, rule := range c.Aggregation.Rules {
		if rule.Rollout == "" {
			continue
		}
		p, _, ok := c.Rollout.named(rule.Rollout)
		if !ok {
			return nil, fmt.Errorf("aggregation.rules[%d].rollout: no policy %q", i, rule.Rollout)
		}
		policy := p.policy()
		selector, mistakes := policy.Compile(env)
		if len(mistakes) > 0 {
			return nil, fmt.Errorf("rollout policy %q: %w", p.Name, mistakes[0])
		}
		all.Use(rule.NameAt(i), policy, selector)
	}
	return all, nil
}

// RolloutMode is what a policy does with changes.
type RolloutMode rollout.Mode

// UnmarshalText takes the name of a mode. YAML of version 1.1 takes off for false.
func (m *RolloutMode) UnmarshalText(text []byte) error {
	if string(text) == "false" {
		text = []byte(rollout.Off)
	}
	return oneOf((*rollout.Mode)(m), text, rollout.Modes...)
}

// RolloutOnFail is what a failure does.
type RolloutOnFail rollout.OnFail

// UnmarshalText takes the name of what a failure does.
func (f *RolloutOnFail) UnmarshalText(text []byte) error {
	return oneOf((*rollout.OnFail)(f), text, rollout.RollBack, rollout.HoldThere)
}

// RolloutAnswer is when the control plane gets its answer.
type RolloutAnswer rollout.Answer

// UnmarshalText takes the name of when the control plane gets its answer.
func (a *RolloutAnswer) UnmarshalText(text []byte) error {
	return oneOf((*rollout.Answer)(a), text, rollout.AfterScouts, rollout.AtOnce)
}

// RolloutNoData is what a missing answer means.
type RolloutNoData rollout.NoData

// UnmarshalText takes the name of what a missing answer means.
func (n *RolloutNoData) UnmarshalText(text []byte) error {
	return oneOf((*rollout.NoData)(n), text, rollout.WaitForData, rollout.FailWithoutData)
}

// HasHooks reports whether other systems are asked, or get events.
func (r *Rollout) HasHooks() bool {
	return r.Events.Webhook != "" || slices.ContainsFunc(r.Policies, func(p RolloutPolicy) bool { return len(p.Checks) > 0 })
}

// HookTokens are the token files of these systems, each once.
func (r *Rollout) HookTokens() (files []string) {
	if r.Events.TokenFile != "" {
		files = append(files, r.Events.TokenFile)
	}
	for _, p := range r.Policies {
		for _, c := range p.Checks {
			if c.TokenFile != "" && !slices.Contains(files, c.TokenFile) {
				files = append(files, c.TokenFile)
			}
		}
	}
	return files
}

// RolloutNewer is what a newer revision does.
type RolloutNewer rollout.Newer

// UnmarshalText takes the name of what a newer revision does.
func (n *RolloutNewer) UnmarshalText(text []byte) error {
	return oneOf((*rollout.Newer)(n), text, rollout.Restart, rollout.AfterThis)
}
