package relay

import (
	"context"
	"crypto/tls"

	"xdsrelay/relay/config"
	"xdsrelay/relay/hooks"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/secure"
)

// newHooks makes what asks other systems about rollouts, and sends events; nil if no policy has a check, and
// no webhook gets events.
func (n *Node) newHooks(cfg *config.Config) (*hooks.Client, error) {
	r := &cfg.Rollout
	if !r.HasHooks() {
		return nil, nil
	}
	side := secure.Config{CertFile: r.TLS.CertFile, KeyFile: r.TLS.KeyFile, CAFile: r.TLS.CAFile}
	if r.TLS.MinVersion == config.TLS12 {
		side.MinVersion = tls.VersionTLS12
	}
	return hooks.New(hooks.Config{TLS: side, TokenFiles: r.HookTokens(), Logger: n.part(logs.Security)})
}

// targetOf is the webhook that gets the events of rollouts; nil for none.
func targetOf(cfg *config.Config, systems *hooks.Client) *hooks.Target {
	e := &cfg.Rollout.Events
	if e.Webhook == "" {
		return nil
	}
	return &hooks.Target{Client: systems, URL: e.Webhook, TokenFile: e.TokenFile, Timeout: e.Timeout}
}

// askAboutRollout asks the system of a check. A policy of a rollout in progress may be gone from the
// configuration.
func (n *Node) askAboutRollout(ctx context.Context, q *rollout.Question) rollout.CheckResult {
	if systems := n.hooks.Load(); systems != nil {
		return systems.Ask(ctx, q)
	}
	return rollout.CheckResult{Name: q.Check.Name, Reply: rollout.Unreachable, Text: "the configuration has no checks any more; abort the rollout, or promote it without checks"}
}
