package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// check finds what no field on its own can show: values out of range, and
// fields that contradict one another.
func (d *decoder) check(cfg *Config) {
	before := len(d.problems)
	d.checkNode(cfg)
	d.checkListeners(cfg)
	d.checkIntervals("downstream.min_interval", cfg.Downstream.MinInterval)
	d.checkREST(cfg)
	d.checkUpstreams(cfg)
	d.checkRules(cfg)
	d.checkAuthorization(cfg)
	d.checkTypes("aggregation.private_types", cfg.Aggregation.PrivateTypes)
	d.checkLastKnownGood(cfg)
	d.checkRollout(cfg)
	d.checkTier(cfg)
	d.checkAdmin(cfg)
	d.checkTraceURL(cfg.Telemetry.TraceURL)
	if a := cfg.Metrics.Address; a != "" {
		d.hostPort("metrics.address", a, 0)
	}
	d.checkPorts(cfg)
	d.checkLog(cfg)
	d.checkRanges(reflect.ValueOf(*cfg), "")
	// A field that could not be decoded has kept its default; what follows from that is
	// no mistake of the user.
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

// within reports whether a path is that of a field or of something inside it.
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

func (d *decoder) checkNode(cfg *Config) {
	if n := len(cfg.Node.Name); n > 255 {
		d.wrong("node.name", "has %d bytes, expected at most 255", n)
	}
	if strings.ContainsFunc(cfg.Node.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		d.wrong("node.name", "has characters that are not printable")
	}
}

// target checks an address of a control plane.
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

// isLoopback reports whether only this machine can reach a host. A name other than
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
