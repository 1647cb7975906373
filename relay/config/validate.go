package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// check finds what no field on its own can show: values out of range, and
// fields that contradict one another.
func (d *decoder) check(cfg *Config) {
	before := len(d.problems)
	d.checkNode(cfg)
	d.checkListen(cfg)
	d.checkREST(cfg)
	d.checkLimits(cfg)
	d.checkOrigins(cfg)
	d.checkRules(cfg)
	d.checkAuthorize(cfg)
	d.checkTypes("aggregation.private_types", cfg.Aggregation.PrivateTypes)
	d.checkCache(cfg)
	d.checkLastGood(cfg)
	d.checkTier(cfg)
	d.checkAdmin(cfg)
	d.checkMetrics(cfg)
	d.checkPorts(cfg)
	d.intWithin("telemetry.top_keys", cfg.Telemetry.TopKeys, 0, 1000)
	d.intWithin("telemetry.client_spans", cfg.Telemetry.ClientSpans, 0, 16)
	d.checkLog(cfg)
	d.notNegative("drain.time", cfg.Drain.Time)
	d.notNegative("drain.grace", cfg.Drain.Grace)
	// A field that could not be decoded has kept its default: what follows from
	// that is no mistake of the user's.
	failed, found := d.problems[:before:before], d.problems[before:]
	around := make(fieldsAround)
	for _, p := range failed {
		around.add(p.Field)
	}
	d.problems = failed
	for _, p := range found {
		if !around.touch(p.Field) {
			d.problems = append(d.problems, p)
		}
	}
}

// fieldsAround are fields, true, and all that they are inside of, false. A file may have very
// many mistakes, so that comparing each with each takes minutes.
type fieldsAround map[string]bool

func (a fieldsAround) add(field string) {
	a[field] = true
	for field = outer(field); field != ""; field = outer(field) {
		if !a[field] {
			a[field] = false
		}
	}
}

// touch reports whether a field is one of these, inside one, or around one.
func (a fieldsAround) touch(field string) bool {
	if _, is := a[field]; is {
		return true
	}
	for field = outer(field); field != ""; field = outer(field) {
		if a[field] {
			return true
		}
	}
	return false
}

// outer is the path of what a field is inside of; empty for the file itself.
func outer(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// within tells whether a path is that of a field or of something inside it.
func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// at is where the field was set, or else the section that it is missing from.
func (d *decoder) at(path string) place {
	for path != "" {
		if at, ok := d.places[path]; ok {
			return at
		}
		path = outer(path)
	}
	return place{source: d.name}
}

func (d *decoder) wrong(path, format string, args ...any) {
	d.fail(d.at(path), path, format, args...)
}

func (d *decoder) atLeast(path string, got, least time.Duration) {
	if got < least {
		d.wrong(path, "is %s, expected at least %s", got, least)
	}
}

func (d *decoder) notNegative(path string, got time.Duration) { d.atLeast(path, got, 0) }

func (d *decoder) sizeWithin(path string, got, least, most Size) {
	if got < least || got > most {
		d.wrong(path, "is %s, expected a size from %s to %s", got, least, most)
	}
}

func (d *decoder) checkNode(cfg *Config) {
	if n := len(cfg.Node.Name); n > 255 {
		d.wrong("node.name", "has %d bytes, expected at most 255", n)
	}
	if strings.ContainsFunc(cfg.Node.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		d.wrong("node.name", "holds characters that cannot be printed")
	}
}

func (d *decoder) checkListen(cfg *Config) {
	l := cfg.Listen
	d.checkListeners(cfg)
	if l.Compression > 0 {
		d.sizeWithin("listen.compression", Size(l.Compression), 1<<10, 1<<30)
	}
	d.sizeWithin("listen.max_receive_size", l.MaxReceiveSize, 4<<10, 1<<30)
	d.sizeWithin("listen.max_send_size", l.MaxSendSize, 1<<10, 1<<30)
	if l.MaxNames < 1 {
		d.wrong("listen.max_names", "is %d, expected at least 1", l.MaxNames)
	}
	d.atLeast("listen.handshake_timeout", l.HandshakeTimeout, 100*time.Millisecond)
	d.atLeast("listen.first_request_timeout", l.FirstRequestTimeout, 100*time.Millisecond)
	d.atLeast("listen.send_timeout", l.SendTimeout, 100*time.Millisecond)
	d.atLeast("listen.ack_timeout", l.AckTimeout, 100*time.Millisecond)
	d.atLeast("listen.origin_timeout", l.OriginTimeout, 100*time.Millisecond)
	if l.MaxConnectionAge != 0 && l.MaxConnectionAge < time.Minute {
		d.wrong("listen.max_connection_age", "is %s, expected 0s or at least 1m", l.MaxConnectionAge)
	}
}

// target checks an address of the origin.
func (d *decoder) target(path, address string) bool {
	if socket, ok := strings.CutPrefix(address, "unix:"); ok {
		if socket == "" {
			d.wrong(path, "got %q, expected a path after unix:", address)
		}
		return socket != ""
	}
	_, ok := d.hostPort(path, strings.TrimPrefix(address, "dns:///"), 1)
	return ok
}

// where says in words where a field was set.
func (d *decoder) where(path string) string {
	switch at := d.at(path); {
	case at.Line > 0:
		return "line " + strconv.Itoa(at.Line)
	case at.source != "":
		return at.source
	}
	return "by default"
}

func (d *decoder) checkDirectory(path, name string) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		d.wrong(path, "%v; expected a directory", err)
	case !info.IsDir():
		d.wrong(path, "%s is a file, expected a directory", name)
	default:
		if _, err := os.ReadDir(name); err != nil {
			d.wrong(path, "%v; expected a directory that this process can read", err)
		}
	}
}

func (d *decoder) checkCache(cfg *Config) {
	c := cfg.Cache
	d.notNegative("cache.linger", c.Linger)
	d.notNegative("cache.hold", c.Hold)
	if c.IdleSize < 0 {
		d.wrong("cache.idle_size", "is %d bytes, expected at least 0B", c.IdleSize)
	}
	if c.History < 0 || c.History > 10_000 {
		d.wrong("cache.history", "is %d, expected 0 to 10000", c.History)
	}
	if c.Tombstones < 1 {
		d.wrong("cache.tombstones", "is %d, expected at least 1", c.Tombstones)
	}
	if c.MaxRemovalPercent < 0 || c.MaxRemovalPercent > 100 {
		d.wrong("cache.max_removal_percent", "is %d, expected 0 to 100", c.MaxRemovalPercent)
	}
	d.notNegative("cache.removal_hold", c.RemovalHold)
	d.sizeWithin("cache.bodies_size", c.BodiesSize, 1<<20, 1<<50)
}

// hostPort checks an address in the form host:port with a port of at least
// least, and gives its host.
func (d *decoder) hostPort(path, address string, least uint64) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		d.wrong(path, "got %q, expected host:port, like 127.0.0.1:18000 or [::1]:18000", shorten(address))
		return "", false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < least {
		d.wrong(path, "got %q, expected a port number from %d to 65535", shorten(address), least)
		return "", false
	}
	if host == "" && least > 0 {
		d.wrong(path, "got %q, expected a host before the port", shorten(address))
		return "", false
	}
	if strings.ContainsFunc(host, func(r rune) bool { return !unicode.IsPrint(r) || r == '/' || r == ' ' }) {
		d.wrong(path, "got %q, expected a host name or IP address before the port", shorten(address))
		return "", false
	}
	return host, true
}

// isLoopback tells whether only this machine can reach a host. A name other than
// localhost may mean anything, so it is not one.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func quoteHost(host string) string {
	if host == "" {
		return "an empty host (all interfaces)"
	}
	return fmt.Sprintf("%q", host)
}
