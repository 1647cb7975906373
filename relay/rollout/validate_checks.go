package rollout

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// checkFailIf finds limits that no client can reach, or that chance does.
func (p *Policy) checkFailIf(c *check) {
	f := &p.FailIf
	if f.NACKs < 0 {
		c.wrong("fail_if.nacks", "is %d, expected 0 (off) or more clients", f.NACKs)
	}
	if f.NACKs == 0 {
		c.warnings = append(c.warnings, Problem{"fail_if.nacks", "is 0: a revision that clients reject does not fail"})
	}
	if f.Unanswered.Clients < 0 {
		c.wrong("fail_if.unanswered.clients", "is %d, expected 0 (off) or more clients", f.Unanswered.Clients)
	}
	if f.Unanswered.Clients > 0 {
		between(c, "fail_if.unanswered.within", f.Unanswered.Within, 100*time.Millisecond, time.Hour)
	}
	if f.Lost.Clients < 0 {
		c.wrong("fail_if.lost.clients", "is %d, expected 0 (off) or more clients", f.Lost.Clients)
	}
	if f.Lost.Clients > 0 && !(f.Lost.TimesControl >= 1) {
		c.wrong("fail_if.lost.times_control", "is %v, expected 1 or more", f.Lost.TimesControl)
	}
	if a := f.Errors.AboveControl; !(a >= 0 && a < 1) {
		c.wrong("fail_if.errors.above_control", "is %v, expected 0%% or more and less than 100%%", a)
	}
}

// checkChecks finds questions that have no answer.
func (p *Policy) checkChecks(c *check) {
	if len(p.Checks) > 16 {
		c.wrong("checks", "has %d checks, expected at most 16", len(p.Checks))
	}
	names := make(map[string]bool)
	for i := range p.Checks {
		k, field := &p.Checks[i], fmt.Sprintf("checks[%d]", i)
		switch {
		case k.Name == "":
			c.wrong(field+".name", "is missing, expected a name for messages")
		case names[k.Name]:
			c.wrong(field+".name", "is %q, which another check has", k.Name)
		}
		names[k.Name] = true
		switch {
		case (k.Prometheus == "") == (k.Webhook == ""):
			c.wrong(field, "expected either prometheus or webhook")
		case k.Prometheus != "":
			if problem := URLProblem(k.Prometheus, k.AllowPlaintext); problem != "" {
				c.wrong(field+".prometheus", "%s", problem)
			}
			k.checkQuery(c, field)
		default:
			if problem := URLProblem(k.Webhook, k.AllowPlaintext); problem != "" {
				c.wrong(field+".webhook", "%s", problem)
			}
			if k.Query != "" || k.Fail != "" {
				c.wrong(field, "has query or fail, which belong to prometheus: a webhook answers pass, fail or wait itself")
			}
		}
		between(c, field+".timeout", k.Timeout, 100*time.Millisecond, 5*time.Minute)
		between(c, field+".every", k.Every, time.Second, time.Hour)
		oneOf(c, field+".no_data", k.NoData, WaitForData, FailWithoutData)
	}
}

func (k *Check) checkQuery(c *check, field string) {
	if k.Query == "" {
		c.wrong(field+".query", "is missing, expected a PromQL expression that has one value")
	} else if _, err := ParseQuery(k.Query); err != nil {
		c.wrong(field+".query", "%v", err)
	}
	if k.Fail == "" {
		c.wrong(field+".fail", `is missing: the query would never fail a step; expected a comparison such as "> 0.01"`)
	} else if _, err := ParseThreshold(k.Fail); err != nil {
		c.wrong(field+".fail", "%v", err)
	}
}

// URLProblem returns what is wrong with the URL of another system; empty if nothing is. It never has the URL,
// which may hold a secret.
func URLProblem(text string, allowPlaintext bool) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return "expected a URL such as https://host/path"
	case u.Fragment != "":
		return "has a fragment, which is not sent; expected a URL such as https://host/path"
	case u.Scheme == "http" && !allowPlaintext && !isLoopback(u.Hostname()):
		return "begins with http://, so any machine on the way can read what is sent, and answer it; expected https://, or allow_plaintext: true if the network is trusted"
	}
	return ""
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// ParseThreshold reads a comparison such as "> 0.01".
func ParseThreshold(text string) (Threshold, error) {
	rest := strings.TrimLeft(strings.TrimSpace(text), "<>=!")
	sign := strings.TrimSpace(text)[:len(strings.TrimSpace(text))-len(rest)]
	value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	switch sign {
	case ">", ">=", "<", "<=":
		if err == nil && value-value == 0 { // a number, and finite
			return Threshold{sign, value}, nil
		}
	}
	return Threshold{}, fmt.Errorf("is %q, expected >, >=, < or <= and a number, such as \"> 0.01\"", text)
}
