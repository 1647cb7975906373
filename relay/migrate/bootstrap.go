package migrate

import (
	"net"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/yamlpos"
)

// bootstrap is what counts of a bootstrap file.
type bootstrap struct {
	listen, origin, admin address
	level                 string // empty: the default
	ttl                   time.Duration
	ttlAt                 place
}

type address struct {
	at   place
	host string
	port uint64
	set  bool
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.FormatUint(a.port, 10)) }

func (a address) loopback() bool {
	ip := net.ParseIP(a.host)
	return a.host == "localhost" || ip != nil && ip.IsLoopback()
}

// levels are those of the log, by name and number.
var levels = map[string]string{"INFO": "info", "0": "info", "DEBUG": "debug", "1": "debug", "WARN": "warn", "2": "warn", "ERROR": "error", "3": "error"}

func (d *decoder) bootstrap(t *tree) (b bootstrap) {
	for _, f := range t.fields {
		if f.value.kind == yamlpos.Null {
			continue
		}
		switch f.name {
		case "server":
			d.inside(f, "listener", "address")
			b.listen = d.address(f.value.get("address"), f.at, "server.address")
		case "origin_server":
			b.origin = d.origin(f)
		case "admin":
			d.inside(f, "admin", "address")
			b.admin = d.address(f.value.get("address"), f.at, "admin.address")
		case "logging":
			b.level = d.logging(f)
		case "cache":
			b.ttl, b.ttlAt = d.cache(f)
		case "metrics_sink":
			d.note(f.at, "", "The metrics are not sent to statsd: Prometheus reads them at /metrics, on the admin port and on metrics.address, "+
				"and OTEL_EXPORTER_OTLP_ENDPOINT sends them by OTLP. Their names are new: docs/reference/metrics.md lists them.")
		default:
			d.unknown(f, "")
		}
	}
	if !b.listen.set || !b.origin.set {
		d.fail(t.at, "the bootstrap needs both server and origin_server")
	}
	return b
}

// inside checks that a section holds fields, and tells of those that it does not know.
func (d *decoder) inside(f field, section string, known ...string) {
	if f.value.kind != yamlpos.Fields {
		d.fail(f.at, "%s is %s, expected the fields %s", f.name, f.value.kind, strings.Join(known, ", "))
		return
	}
next:
	for _, inner := range f.value.fields {
		for _, k := range known {
			if inner.name == k {
				continue next
			}
		}
		d.unknown(field{f.name + "." + inner.name, inner.at, inner.value}, section)
	}
}

func (d *decoder) unknown(f field, section string) {
	d.note(f.at, section, f.name+" is not known here and left out.")
}

func (d *decoder) address(t *tree, at place, what string) (a address) {
	a.at = at
	if t == nil || t.kind != yamlpos.Fields {
		d.fail(at, "%s needs address and port_value", what)
		return a
	}
	if !d.fields(t, what, "address", "port_value") {
		return a
	}
	host, port := t.get("address"), t.get("port_value")
	if host == nil || d.text(host, what) == "" {
		d.fail(t.at, "%s has no address", what)
		return a
	}
	a.host, a.set = host.text, true
	if port == nil {
		return a
	}
	n, err := strconv.ParseUint(port.text, 10, 16)
	if err != nil {
		d.fail(port.at, "the port is %q, expected 0 to 65535", port.text)
	}
	a.port = n
	return a
}

func (d *decoder) origin(f field) address {
	d.inside(f, "upstream", "address", "ads", "keep_alive_time")
	if ads := f.value.get("ads"); ads == nil || ads.text != "true" {
		d.note(f.at, "upstream", "xds-relay called the control plane's services of single types. xdsrelay calls the aggregated one (ADS), which servers built on go-control-plane have, too.")
	}
	if k := f.value.get("keep_alive_time"); k != nil {
		d.note(k.at, "upstream", "keep_alive_time is left out: a silent connection is pinged after upstream.keepalive_interval, 5m30s.")
	}
	return d.address(f.value.get("address"), f.at, "origin_server.address")
}

func (d *decoder) logging(f field) string {
	d.inside(f, "log", "path", "level")
	if p := f.value.get("path"); p != nil {
		d.note(p.at, "log", "The relay logs to standard error and not to "+strconv.Quote(p.text)+".")
	}
	l := f.value.get("level")
	if l == nil {
		return ""
	}
	level, ok := levels[l.text]
	if !ok {
		d.fail(l.at, "the level is %q, expected INFO, DEBUG, WARN or ERROR", l.text)
	}
	return level
}

func (d *decoder) cache(f field) (ttl time.Duration, at place) {
	d.inside(f, "cache", "ttl", "max_entries")
	if m := f.value.get("max_entries"); m != nil && m.text != "0" {
		d.note(m.at, "cache", "max_entries is left out: keys are not bounded by number. Those with clients always stay, and those without share limits.max_idle_keys_size, 256MiB.")
	}
	t := f.value.get("ttl")
	if t == nil {
		return 0, f.at
	}
	ttl, err := time.ParseDuration(t.text)
	if err != nil || ttl < 0 {
		d.fail(t.at, "the ttl is %q, expected a time like 60s", t.text)
	}
	return ttl, t.at
}
