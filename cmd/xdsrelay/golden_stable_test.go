package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// goldenRules replace what differs from run to run.
var goldenRules = []struct {
	name string
	find *regexp.Regexp
	put  string
}{
	{"the ports of connections depend on their order", regexp.MustCompile(`127\.0\.0\.1:4\d{4}\b`), "127.0.0.1:PORT"},
	{"nodes ask each other at random times", regexp.MustCompile(`("last_seen": )"[^"]*"`), `$1"TIME"`},
	{"each process of a node has a random name of its events", regexp.MustCompile(`("after": )"[^"]*"`), `$1"AFTER"`},
	{"the toolchain", regexp.MustCompile(`(xdsrelay_build_info\{go=)"[^"]*"`), `$1"GO"`},
	{"each build of the protobuf library puts other spaces into errors", regexp.MustCompile(`(proto:)[ \x{a0}]`), "$1 "},
	{"each process of a node has a random name of its own", regexp.MustCompile(`("incarnation": )"[A-Z2-7]{26}"`), `$1"INCARNATION"`},
}

// goldenBodies are put instead of bodies that say nothing about the node, by the beginning of the
// path.
var goldenBodies = map[string]string{
	"/debug/pprof/": "(the Go runtime's)",
	"/ui/app.js":    "(relay/admin/ui/app.js)",
}

// unstableMetrics are the lines of metrics that are left out: descriptions, which docs/reference/metrics.md
// has, and what differs from run to run or from build to build. That is the process, the buckets and
// sums of times, whether two workers build the same body at once, the size of JSON, in which each
// build of the protobuf library puts other spaces, and points in time.
var unstableMetrics = regexp.MustCompile(`(?m)^(# HELP |xdsrelay_\w+_timestamp_seconds\b|(# TYPE )?(go_|process_|\w+_bucket\{|\w+_seconds_sum\b|xdsrelay_downstream_bod(y_build|ies_built|ies_reused)_|xdsrelay_rest_sent_bytes_|xdsrelay_scheduling_latency_)).*\n`)

// stable returns a body without what differs from run to run. JSON is indented.
func stable(path, body string) string {
	for prefix, instead := range goldenBodies {
		if strings.HasPrefix(path, prefix) {
			return instead
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(body), "", "  ") == nil {
		body = b.String()
	}
	if strings.HasPrefix(path, "/metrics") {
		body = unstableMetrics.ReplaceAllString(body, "")
	}
	for _, rule := range goldenRules {
		body = rule.find.ReplaceAllString(body, rule.put)
	}
	return strings.TrimRight(body, "\n")
}
