package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Problem is a mistake in a policy, or a warning about it. Field is its path in the policy, such as
// steps[1].share.
type Problem struct{ Field, Message string }

func (p Problem) String() string { return p.Field + ": " + p.Message }

// World is what a policy depends on besides itself.
type World struct {
	// Env compiles its expressions; nil leaves them to [Policy.Compile].
	Env *aggregation.Env
	// LastGood says that last known good is stored.
	LastGood bool
	// Agrees says that the nodes can agree on who gets a revision: there is one, or they share a Redis.
	Agrees bool
}

// check collects problems.
type check struct{ problems, warnings []Problem }

func (c *check) wrong(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...)})
}

// Validate returns what is wrong with a policy, and what an operator may not expect.
func (p *Policy) Validate(w *World) (problems, warnings []Problem) {
	var c check
	oneOf(&c, "mode", p.Mode, Modes...)
	oneOf(&c, "on_fail", p.OnFail, RollBack, HoldThere)
	oneOf(&c, "newer", p.Newer, Restart, AfterThis)
	oneOf(&c, "upstream.answer", p.Upstream.Answer, AfterScouts, AtOnce)
	if p.Name == "" {
		c.wrong("name", "is missing, expected a name that rules can refer to")
	}
	p.checkTypes(&c)
	if p.Mode.Holds() && !w.LastGood {
		c.wrong("mode", "is %s without last_known_good.store, so a restart would release what is held; set last_known_good.store to directory", p.Mode)
	}
	if p.Mode.Holds() && !w.Agrees {
		c.wrong("mode", "is %s in a tier without Redis (tier.nodes), whose nodes cannot agree on who gets a revision; expected off, or tier.redis", p.Mode)
	}
	p.checkTimes(&c)
	p.checkSteps(&c)
	p.checkClients(&c, w)
	p.checkFailIf(&c)
	p.checkChecks(&c)
	return c.problems, c.warnings
}

func oneOf[T ~string](c *check, field string, v T, expected ...T) {
	if slices.Contains(expected, v) {
		return
	}
	names := make([]string, len(expected))
	for i, e := range expected {
		names[i] = string(e)
	}
	c.wrong(field, "is %q, expected %s", v, strings.Join(names, ", "))
}

// endpointsPass says why endpoints cannot be gated.
const endpointsPass = "endpoints always pass at once: held endpoints send requests to hosts that are gone"

func (p *Policy) checkTypes(c *check) {
	if len(p.Types) == 0 {
		c.wrong("types", "is empty, expected some of %s", strings.Join(defaultTypes, ", "))
	}
	seen := make(map[string]bool)
	for i, name := range p.Types {
		field, url := fmt.Sprintf("types[%d]", i), URLOf(name)
		switch {
		case url == resource.EndpointURL || url == resource.LbEndpointURL:
			c.wrong(field, "is %s, which cannot be gated: %s", name, endpointsPass)
		case url == resource.VirtualHostURL:
			c.wrong(field, "is %s, which cannot be gated: its resources have aliases", name)
		case url == name && !strings.HasPrefix(name, resource.TypePrefix):
			c.wrong(field, "is %q, expected a type URL, or one of %s, SDS", name, strings.Join(defaultTypes, ", "))
		case seen[url]:
			c.wrong(field, "is %s, which is listed twice", name)
		case url == resource.SecretURL:
			c.warnings = append(c.warnings, Problem{field, "is SDS: certificates that expire during a rollout are not renewed until it ends, and a shared record would hold secrets"})
		}
		seen[url] = true
	}
}

func (p *Policy) checkTimes(c *check) {
	between(c, "settle.quiet", p.Settle.Quiet, 10*time.Millisecond, time.Minute)
	between(c, "settle.max", p.Settle.Max, 10*time.Millisecond, 10*time.Minute)
	if p.Settle.Max < p.Settle.Quiet {
		c.wrong("settle.max", "is %v, which is less than settle.quiet, %v", p.Settle.Max, p.Settle.Quiet)
	}
	between(c, "final_bake", p.Final, 0, 7*24*time.Hour)
	between(c, "longest", p.Longest, time.Second, 30*24*time.Hour)
	if p.Upstream.Answer == AfterScouts {
		between(c, "upstream.within", p.Upstream.Within, 0, 900*time.Millisecond)
	}
	if p.Upstream.Answer == AfterScouts && p.Mode.Holds() && p.Upstream.Within > 0 && p.Settle.Quiet >= p.Upstream.Within {
		c.warnings = append(c.warnings, Problem{"settle.quiet", fmt.Sprintf(
			"is %v, which is not less than upstream.within, %v: the control plane gets its ACK before scouts get the revision; set upstream.answer to stored, or lower settle.quiet", p.Settle.Quiet, p.Upstream.Within)})
	}
}

func between(c *check, field string, d, least, most time.Duration) {
	if d < least || d > most {
		c.wrong(field, "is %v, expected %v to %v", d, least, most)
	}
}

func (p *Policy) checkSteps(c *check) {
	if len(p.Steps) == 0 || len(p.Steps) > 20 {
		c.wrong("steps", "has %d steps, expected 1 to 20", len(p.Steps))
	}
	sum := p.Final
	for i, s := range p.Steps {
		field := fmt.Sprintf("steps[%d]", i)
		switch {
		case !(s.Share > 0 && s.Share < 1):
			c.wrong(field+".share", "is %v, expected more than 0%% and less than 100%%: after the last step all clients follow", s.Share)
		case i > 0 && s.Share <= p.Steps[i-1].Share:
			c.wrong(field+".share", "is %v after %v, expected shares that rise", s.Share, p.Steps[i-1].Share)
		}
		between(c, field+".bake", s.Bake, time.Second, 7*24*time.Hour)
		sum += s.Bake
	}
	if p.Longest > 0 && sum > p.Longest {
		c.wrong("longest", "is %v, but the bakes alone take %v", p.Longest, sum)
	}
}

func (p *Policy) checkClients(c *check, w *World) {
	if p.Scouts.Most < 1 || p.Scouts.Most > 100 {
		c.wrong("scouts.most", "is %d, expected 1 to 100", p.Scouts.Most)
	}
	if p.Canaries.Small < 0 {
		c.wrong("canaries.small", "is %d, expected 0 or more clients", p.Canaries.Small)
	}
	if w.Env == nil {
		return
	}
	_, mistakes := p.Compile(w.Env)
	for _, m := range mistakes {
		c.wrong(m.Field, "line %d, column %d of the expression: %s", m.Line, m.Column, m.Message)
	}
}
