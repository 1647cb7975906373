package config

import (
	"net/url"
	"strings"
	"unicode"
)

// checkTraceURL checks the URL to which browsers are sent.
func (d *decoder) checkTraceURL(text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(strings.ReplaceAll(text, traceID, "0"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(text, traceID) {
		d.wrong("telemetry.trace_url", "got %q, expected an http or https URL with %s, such as https://jaeger.example/trace/%s", shorten(text), traceID, traceID)
	}
}

// traceID stands for the id in a trace URL.
const traceID = "{trace_id}"

func (d *decoder) checkAdmin(cfg *Config) {
	a := cfg.Admin
	d.checkServerTLS("admin.tls", a.TLS)
	d.readable("admin.token_file", a.TokenFile)
	for _, t := range [...]struct{ field, file string }{{"admin.read_token_file", a.ReadTokenFile}, {"admin.rollout_token_file", a.RolloutTokenFile}} {
		d.readable(t.field, t.file)
		if t.file != "" && a.TokenFile == "" {
			d.wrong(t.field, "is set without admin.token_file; set that, too, since commands need a token")
		}
	}
	if a.TLS.spiffe() && a.TokenFile == "" {
		d.wrong("admin.token_file", "is empty, but admin.tls accepts the certificates of all workloads of a SPIFFE trust domain; expected a token, or admin.tls.ca_file for the certificates of operators alone")
	}
	for _, h := range a.Hosts {
		if h == "" || strings.ContainsFunc(h, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("/:* ", r) }) {
			d.wrong("admin.hosts", "got %q, expected a host name without a port", shorten(h))
		}
	}
	if a.Address == "" {
		return
	}
	if host, ok := d.hostPort("admin.address", a.Address, 0); ok && !isLoopback(host) {
		switch {
		case !a.TLS.On():
			d.wrong("admin.address", "%s is not a loopback address, and admin.tls has no certificate; the port shows the state of every client and accepts commands. "+
				"Expected a loopback host such as 127.0.0.1, or admin.tls with admin.token_file or admin.tls.ca_file. "+
				"For metrics and health alone, use metrics.address", quoteHost(host))
		case a.TokenFile == "" && (!a.TLS.AsksClients() || a.TLS.ClientAuth == ClientAuthOptional):
			d.wrong("admin.address", "%s is not a loopback address, and the port would accept every connection; expected admin.token_file, or admin.tls.ca_file for the certificates of operators", quoteHost(host))
		}
	}
}
