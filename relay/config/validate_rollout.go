package config

import (
	"fmt"
	"slices"
	"strconv"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
)

// checkRollout checks the policies, and that rules refer to existing ones.
func (d *decoder) checkRollout(cfg *Config) {
	r := &cfg.Rollout
	limits, mistakes := r.limits()
	for i := range r.Budget {
		d.placeItem(fmt.Sprintf("rollout.budget[%d]", i), "rollout.budget")
	}
	for i, err := range mistakes {
		d.wrong(fmt.Sprintf("rollout.budget[%d]", i), "got %q, %v", shorten(r.Budget[i]), err)
	}
	if mistakes == nil {
		for _, p := range limits.Check() {
			if p.Field != "breaker.failures" { // see checkRanges
				d.wrong("rollout."+p.Field, "%s", p.Message)
			}
		}
	}
	env, err := aggregation.NewEnv(0)
	if err != nil {
		d.wrong("rollout", "%v", err)
		return
	}
	if len(r.Policies) > maxRolloutPolicies {
		d.wrong("rollout.policies", "has %d policies, expected at most %d", len(r.Policies), maxRolloutPolicies)
		return
	}
	d.checkRolloutTLS(&r.TLS)
	d.checkRolloutEvents(&r.Events)
	names := make(map[string]string)
	for i := range r.Policies {
		p, path := &r.Policies[i], "rollout.policies["+strconv.Itoa(i)+"]"
		d.checkName(path+".name", "policy", p.Name, names)
		for k := range p.Types {
			d.placeItem(fmt.Sprintf("%s.types[%d]", path, k), path+".types")
		}
		for k, c := range p.Checks {
			at := fmt.Sprintf("%s.checks[%d]", path, k)
			d.placeItem(at, path+".checks")
			d.readable(at+".token_file", c.TokenFile)
		}
		policy := p.policy()
		problems, _ := policy.Validate(cfg.rolloutWorld())
		for _, problem := range problems {
			if problem.Field != "name" { // see checkName
				d.wrong(path+"."+problem.Field, "%s", problem.Message)
			}
		}
		if n := p.FailIf.Errors.Requests; n < 0 {
			d.wrong(path+".fail_if.errors.requests", "is %d, expected 0 or more requests", n)
		}
		_, mistakes := policy.Compile(env)
		for _, m := range mistakes {
			d.misruled(path+"."+m.Field, &aggregation.CompileError{Source: m.Source, Line: m.Line, Column: m.Column, Message: m.Message})
		}
	}
	checked := map[string]bool{"": true}
	for i, rule := range cfg.Aggregation.Rules {
		if !checked[rule.Rollout] {
			checked[rule.Rollout] = true
			d.checkRolloutOf(cfg, "aggregation.rules["+strconv.Itoa(i)+"].rollout", rule.Rollout)
		}
	}
}

// checkRolloutTLS requires that the files exist and belong together.
func (d *decoder) checkRolloutTLS(t *RolloutTLS) {
	d.checkCertificates("rollout.tls", Certificates{CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile})
}

// checkRolloutEvents finds a webhook that cannot be used.
func (d *decoder) checkRolloutEvents(e *RolloutEvents) {
	switch {
	case e.Webhook != "":
		if problem := rollout.URLProblem(e.Webhook, e.AllowPlaintext); problem != "" {
			d.wrong("rollout.events.webhook", "%s", problem)
		}
	case e.TokenFile != "" || e.AllowPlaintext:
		d.wrong("rollout.events", "has token_file or allow_plaintext, but no webhook; expected webhook, the URL that gets the events")
	}
	d.readable("rollout.events.token_file", e.TokenFile)
}

// maxRolloutPolicies bounds what compiling expressions and comparing names take.
const maxRolloutPolicies = 100

// maxSuggestions is after how many mistakes in a file unknown policies get no suggestion.
const maxSuggestions = 100

// checkRolloutOf checks the policy that a rule refers to at a path. Further rules with the same policy have
// the same mistake.
func (d *decoder) checkRolloutOf(cfg *Config, path, name string) {
	p, index, ok := cfg.Rollout.named(name)
	switch {
	case !ok:
		hint := ""
		if known := cfg.policyNames(); len(d.problems) < maxSuggestions {
			hint = didYouMean(name, known)
			if hint == "" {
				hint = ", expected " + list(known, "or") + "; leave it empty for no rollout"
			}
		}
		d.wrong(path, "got %q, an unknown policy%s", shorten(name), hint)
	case index < 0:
		problems, _ := p.policy().Validate(cfg.rolloutWorld())
		for _, problem := range problems {
			d.wrong(path, "the preset %s: %s", name, problem)
		}
	}
}

// policyNames are the names of all policies: the presets, and those that are listed.
func (c *Config) policyNames() (names []string) {
	for _, p := range rollout.Presets() {
		names = append(names, p.Name)
	}
	for _, p := range c.Rollout.Policies {
		if p.Name != "" && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// rolloutWorld is what policies depend on. Their expressions are checked separately.
func (c *Config) rolloutWorld() *rollout.World {
	return &rollout.World{LastGood: c.LastKnownGood.Store != StoreNone, Agrees: !c.Tier.On() || c.Tier.Redis.URL != ""}
}

// rolloutWarnings are the risks of the policies that rules use, and the notes about what passes at once.
func (c *Config) rolloutWarnings() (all []string) {
	var seen []string
	for i, rule := range c.Aggregation.Rules {
		p, index, ok := c.Rollout.named(rule.Rollout)
		if rule.Rollout == "" || !ok || slices.Contains(seen, p.Name) {
			continue
		}
		seen = append(seen, p.Name)
		path := "rollout.policies[" + strconv.Itoa(index) + "]."
		if index < 0 {
			path = "aggregation.rules[" + strconv.Itoa(i) + "].rollout: the preset " + p.Name + ": "
		}
		policy := p.policy()
		if !policy.Mode.Decides() {
			continue
		}
		_, warnings := policy.Validate(c.rolloutWorld())
		for _, w := range warnings {
			all = append(all, path+w.Field+": "+w.Message)
		}
		for k, name := range p.Types {
			if c.isPrivate(rollout.URLOf(name)) {
				all = append(all, fmt.Sprintf("%stypes[%d]: is %s, which is in aggregation.private_types; each client has an upstream stream of its own for it, so its changes pass at once", path, k, name))
			}
		}
	}
	return all
}

// isPrivate reports whether aggregation.private_types has the type with a URL.
func (c *Config) isPrivate(url string) bool {
	return slices.ContainsFunc(c.Aggregation.PrivateTypes, func(name string) bool {
		t := resource.TypeNamed(name)
		return t != nil && t.URL == url
	})
}
