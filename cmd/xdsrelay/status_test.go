package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// someClients stand in every way, and one has a name that would do something to a
// terminal.
func someClients(now time.Time) []ops.Client {
	typ := func(url string, s ops.State, since time.Duration, version string) ops.Type {
		return ops.Type{
			URL: url, Name: ops.ShortName(url), State: s, Since: now.Add(-since), Version: version, SentAt: now.Add(-since), Wildcard: ops.ShortName(url) == "CDS", Names: 2,
			Sent: 9, Acked: 8, Newest: 9, Acks: 3,
		}
	}
	nacked := typ(ops.TypeURL("lds"), ops.Nacked, 3*time.Minute, "v7")
	nacked.Nacks, nacked.Nack = 2, &ops.Nack{At: now.Add(-3 * time.Minute), Code: 13, Message: "no such filter", Version: "v7"}
	client := func(name, node string, s ops.State, since time.Duration, types ...ops.Type) ops.Client {
		return ops.Client{
			Name: name, Cluster: "shop", Key: "shop/eu", Rule: "default", Node: node, Peer: "10.0.0.7:4711", Variants: []string{"delta"},
			Connected: now.Add(-26 * time.Hour), Streams: 1, State: s, Since: now.Add(-since), Types: types,
		}
	}
	missing := typ(ops.TypeURL("cds"), ops.Synced, 2*time.Hour, "v7")
	missing.Missing, missing.MissingNames = 3, []string{"no-\x1bsuch", "other"}
	other := typ("type.googleapis.com/acme.Widget", ops.Synced, time.Hour, strings.Repeat("0123456789abcdef", 2))
	all := []ops.Client{
		client("envoy-1", "a", ops.Synced, time.Hour, missing, other),
		client("envoy-2", "b", ops.Nacked, 3*time.Minute, typ(ops.TypeURL("cds"), ops.Synced, time.Hour, "v7"), nacked),
		client("envoy-3", "b", ops.Nacked, 3*time.Minute, nacked),
		client("envoy-4\x1b[2J", "b", ops.Stale, 500*time.Millisecond, typ(ops.TypeURL("eds"), ops.Stale, 500*time.Millisecond, "v6"), typ(ops.TypeURL("rds"), ops.NotSent, 2*time.Second, "")),
	}
	all[0].Missing = 3
	return all
}

// TestRejectionsByReason: a reason is one line however many keys, versions and clients it
// has, and says how many.
func TestRejectionsByReason(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var clients []ops.Client
	for i := range 60 {
		nack := &ops.Nack{At: now.Add(-time.Duration(i) * time.Second), Message: "no such filter", Version: fmt.Sprint("digest-", i/2)}
		clients = append(clients, ops.Client{
			Name: fmt.Sprint("envoy-", i), Key: fmt.Sprint("key-", i/2), Node: "a", State: ops.Nacked, Types: []ops.Type{{Name: "LDS", State: ops.Nacked, Nack: nack}},
		})
	}
	clients[7].Types[0].Nack.Message = "out of memory"
	var b bytes.Buffer
	reasonLines(&b, ops.SumClients(clients, nil).Rejections, now)
	want := "LDS rejected (NACK) by 59 clients of 30 keys, such as client envoy-59 of key key-29, for 59s: no such filter\n" +
		"LDS digest-3 rejected (NACK) by client envoy-7 of key key-3, for 7s: out of memory\n"
	if b.String() != want {
		t.Errorf("got\n%sexpected\n%s", b.String(), want)
	}
}

// TestStatusSeesMissing: a client that asks for what does not exist is SYNCED with what
// there is, and everything that waits for it, or checks it, sees what is missing.
func TestStatusSeesMissing(t *testing.T) {
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", "../../deploy/examples/directory")
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: p.address(t, "xds"), Variant: xdstest.Delta, Node: xdstest.Node("envoy-1", "shop")})
	c.Subscribe(xdstest.ClusterType)
	c.Subscribe(xdstest.EndpointType, "web", "misspelt")
	admin := p.address(t, "admin")
	awaitSynced(t, admin)
	for _, tc := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"status", 0, "1 client: 1 SYNCED; 1 with missing resources", ""},
		{"status envoy-1", 0, "EDS: the client subscribes to 1 resource that the control plane has not sent: misspelt", ""},
		{"status --state missing", 0, "envoy-1", ""},
		{"status --state missing --type cds", 0, "no clients match", ""},
		{"status --fail-on missing", 1, "envoy-1", "--fail-on"},
		{"status --fail-on nacked,stale,unknown", 0, "envoy-1", ""},
		{"status --wait --timeout 1ms", 1, "envoy-1", "with missing resources"},
		{"status --wait --type cds", 0, "envoy-1", ""},
		{"top --once --interval 100ms", 0, "MISSING", ""},
	} {
		code, stdout, stderr := command(t, append(strings.Fields(tc.args), "--admin", admin)...)
		if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%s: exit code %d, want %d; got\n%s%s", tc.args, code, tc.code, stdout, stderr)
		}
	}
}

// TestStatusWaitsForConfiguration: a client that was sent nothing is not in sync, although it is not
// behind anything; a single type about which the control plane is silent does not matter.
func TestStatusWaitsForConfiguration(t *testing.T) {
	unreachable := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", "127.0.0.1:1")
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: unreachable.address(t, "xds"), Variant: xdstest.Delta, Node: xdstest.Node("envoy-1", "shop")})
	c.Subscribe(xdstest.ClusterType)
	admin := unreachable.address(t, "admin")
	awaitClient(t, admin)
	code, stdout, stderr := command(t, "status", "--wait", "--timeout", "1ms", "--admin", admin)
	if code != 1 || !strings.Contains(stdout, "envoy-1") || !strings.Contains(stderr, "timeout after 1ms: 1 client without configuration") {
		t.Errorf("exit code %d, want 1; got\n%s%s", code, stdout, stderr)
	}
}

// TestStatusVersionIsEmpty: a variable of a script that is empty by mistake does not become a wait for
// anything.
func TestStatusVersionIsEmpty(t *testing.T) {
	code, _, stderr := command(t, "status", "--wait", "--version", "", "--admin", "127.0.0.1:1")
	if code != 2 || !strings.Contains(stderr, "--version") {
		t.Errorf("exit code %d, want 2; got\n%s", code, stderr)
	}
}

// awaitClient waits until a node lists a client.
func awaitClient(t *testing.T, admin string) {
	t.Helper()
	xdstest.Eventually(t, "a client is listed", func() bool {
		_, stdout, _ := command(t, "status", "-o", "name", "--admin", admin)
		return stdout != ""
	})
}

// TestStatusTables holds what people see.
func TestStatusTables(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clients := someClients(now)
	for name, draw := range map[string]func(*bytes.Buffer){
		"table": func(b *bytes.Buffer) {
			printClients(b, ops.Page{Clients: clients}, false, statusFlags{}, now)
			silentLines(b, []ops.Silent{{Node: "c", Error: "no answer within 3s", Clients: 12}})
		},
		"wide": func(b *bytes.Buffer) { clientTable(b, clients, true, now) },
		"client": func(b *bytes.Buffer) {
			c := clients[1]
			c.Types[0].Resources = []ops.Resource{{Name: "web", State: ops.Synced, Exists: true, Version: "v7", Changed: now.Add(-time.Hour)}, {Name: "gone", State: ops.NotSent}}
			c.Types[0].Omitted = 3
			c.Types[1].Waiting = "held after NACK"
			clientDetail(b, &c, now, columns)
		},
		"missing": func(b *bytes.Buffer) { clientDetail(b, &clients[0], now, columns) },
		"polls": func(b *bytes.Buffer) {
			c := clients[3]
			c.Name, c.Variants, c.Streams, c.Polled = "poller", []string{"rest"}, 0, now.Add(-3*time.Second)
			c.Types = slices.Clone(c.Types)
			c.Types[0].Has, c.Types[0].UnackedResends = "v5", 17
			clientDetail(b, &c, now, columns)
			c.Types[0].Has, c.Types[0].UnackedResends = "", 1
			clientDetail(b, &c, now, columns)
		},
		"diff": func(b *bytes.Buffer) {
			printDiff(b, &ops.ClientDiff{Name: "envoy-2", Key: "shop/eu", Node: "b", Peer: "10.0.0.7:4711", Notes: []string{"node b is behind"}, Types: []ops.TypeDiff{
				{Name: "CDS", State: ops.Synced, Same: 12},
				{Name: "LDS", State: ops.Nacked, Same: 1, Differences: []ops.Difference{
					{Name: "l", Change: "changed", Version: "v7", Changed: now.Add(-time.Minute), Sent: ops.Nacked},
					{Name: "m", Change: "added", Version: "v7", Changed: now.Add(-time.Minute), Sent: ops.NotSent, Unsure: true},
					{Name: "n", Change: "removed", Changed: now.Add(-time.Minute), Sent: ops.Stale},
				}},
				{Name: "EDS", State: ops.Unknown, Unknown: true},
			}}, false, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			draw(&b)
			golden(t, "testdata/status_"+name+".txt", b.String())
		})
	}
}

// TestStatusCommands runs the commands about clients and keys against a node.
func TestStatusCommands(t *testing.T) {
	admin := oneClient(t, "../../deploy/examples/directory")
	awaitSynced(t, admin)
	for _, tc := range []struct {
		args           string
		code           int
		stdout, stderr string // a part of each; "" for nothing at all
	}{
		{"status", 0, "envoy-1  shop  SYNCED", ""},
		{"status -o wide", 0, "127.0.0.1:", ""},
		{"status -o json", 0, `"state": "SYNCED"`, ""},
		{"status -o yaml", 0, "state: SYNCED", ""},
		{"status -o xml", 2, "", "expected one of table, wide, json, yaml, name"},
		{"status --state nacked", 0, "no clients match", ""},
		{"status --state odd", 2, "", "expected synced, stale"},
		{"status --type odd", 2, "", "expected a type URL"},
		{"status --node odd", 1, "", "the tier has no node"},
		{"status env", 0, "client:  envoy-1", ""},
		{"status env --resources", 0, "STATE", ""},
		{"status envoy-2", 1, "", "did you mean:\n  envoy-1"},
		{"status --fail-on synced", 1, "envoy-1", "--fail-on"},
		{"status --fail-on nacked,stale,unknown", 0, "envoy-1", ""},
		{"status --watch --wait", 2, "", "none of the others can be"},
		{"status --watch --fail-on stale", 2, "", "none of the others can be"},
		{"status --watch --interval 1ms", 2, "", "expected at least 100ms"},
		{"status --wait", 0, "1 client: 1 SYNCED", ""},
		{"status --key none --wait --timeout 1ms", 1, "no clients", "timeout after 1ms"},
		{"diff envoy-1", 0, "CDS SYNCED", ""},
		{"diff nobody-there", 2, "", "no client has the name"},
		{"dump shop", 0, "key: shop", ""},
		{"dump shop --type cds -o json", 0, `"type_url"`, ""},
		{"dump shop -o table", 0, "CDS", ""},
		{"dump none", 1, "", `no node has the key "none"`},
		{"history shop", 0, "upstream", ""},
		{"history shop -n 1 -o json", 0, `"cause": "upstream"`, ""},
		{"history none", 1, "", `no node has the key "none"`},
		{"top --once --interval 100ms", 0, "1 client on 1 node, 1 key: 1 SYNCED", ""},
		{"__complete status env", 0, "envoy-1\tSYNCED shop", "Completion ended"},
		{"__complete dump sh", 0, "shop", "Completion ended"},
		{"__complete status --state=", 0, "NACKED", "Completion ended"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			args := strings.Fields(tc.args)
			if args[0] == "__complete" {
				args = append([]string{"__complete", args[1], "--admin", admin}, args[2:]...)
			} else {
				args = append(args, "--admin", admin)
			}
			code, stdout, stderr := command(t, args...)
			is := func(got, want string) bool { return got == want || want != "" && strings.Contains(got, want) }
			if code != tc.code || !is(stdout, tc.stdout) || !is(stderr, tc.stderr) {
				t.Errorf("exit code %d, want %d; got\n%s%s", code, tc.code, stdout, stderr)
			}
		})
	}
}

// TestStatusWarns: the clients of a node may be SYNCED while its origin is away, so the
// table says that, too.
func TestStatusWarns(t *testing.T) {
	admin := oneClient(t, "127.0.0.1:1")
	for _, args := range [][]string{{"status"}, {"status", "envoy-1"}} {
		xdstest.Eventually(t, "status to say that there is no stream to the origin", func() bool {
			_, stdout, stderr := command(t, append(args, "--admin", admin)...)
			return strings.Contains(stdout, "envoy-1") && strings.Contains(stderr, "has no upstream stream for 1 key (for ") &&
				strings.Contains(stderr, "connection refused")
		})
	}
}

// TestStatusAsksAtOnce: a node that waits for others is waited for once: it is asked for
// the warnings while it is asked for the clients.
func TestStatusAsksAtOnce(t *testing.T) {
	answers := map[string]string{
		"/api/v1/clients": `{"clients": []}`,
		"/api/v1/client":  `{"clients": [{"name": "n"}]}`,
		"/api/v1/live":    `{"warnings": [{"level": "error", "kind": "control_plane", "text": "the control plane is away"}]}`,
	}
	for _, args := range [][]string{{"status"}, {"status", "n"}} {
		var asked sync.WaitGroup
		asked.Add(2)
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Done()
			both := make(chan struct{})
			go func() { asked.Wait(); close(both) }()
			select {
			case <-both:
			case <-r.Context().Done():
				return
			}
			fmt.Fprint(w, answers[r.URL.Path])
		}))
		code, stdout, stderr := command(t, append(args, "--admin", node.Listener.Addr().String())...)
		if code != 0 || !strings.Contains(stderr, "the control plane is away") {
			t.Errorf("%v: %d, %s%s", args, code, stdout, stderr)
		}
		node.Close()
	}
}

// TestWatch: status goes on until it is interrupted, and then ends well. Where it writes
// to no terminal, one answer follows the other.
func TestWatch(t *testing.T) {
	admin := oneClient(t, "../../deploy/examples/directory")
	awaitSynced(t, admin)
	for name, tc := range map[string]struct{ args, each string }{
		"clients": {"status", "1 client: 1 SYNCED"},
		"client":  {"status envoy-1", "client:  envoy-1"},
		"json":    {"status -o json", `"state": "SYNCED"`},
		"yaml":    {"status -o yaml", "---\n"},
		"top":     {"top", "1 client on 1 node"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(strings.Fields(tc.args), "--interval", "100ms", "--admin", admin)
			if name != "top" {
				args = append(args, "--watch")
			}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			out := &pages{each: tc.each, enough: interrupt}
			var errs bytes.Buffer
			if code := run(ctx, args, nil, out, &errs); code != 0 || errs.Len() > 0 {
				t.Errorf("exit code %d, %s", code, errs.String())
			}
			if n := strings.Count(out.text, tc.each); n < 3 || strings.Contains(out.text, "\x1b") {
				t.Errorf("%d answers: %q", n, out.text)
			}
		})
	}
}

// pages is an output that has enough after three of something.
type pages struct {
	each, text string
	enough     func()
}

func (p *pages) Write(b []byte) (int, error) {
	p.text += string(b)
	if strings.Count(p.text, p.each) >= 3 {
		p.enough()
	}
	return len(b), nil
}

// oneClient starts a node with a client, and returns the node's admin port.
func oneClient(t *testing.T, upstream string) (admin string) {
	t.Helper()
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", upstream)
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: p.address(t, "xds"), Variant: xdstest.Delta, Node: xdstest.Node("envoy-1", "shop")})
	c.Subscribe(xdstest.ClusterType)
	return p.address(t, "admin")
}

func awaitSynced(t *testing.T, admin string) {
	t.Helper()
	xdstest.Eventually(t, "the client to be synced", func() bool {
		_, stdout, _ := command(t, "status", "--admin", admin)
		return strings.Contains(stdout, "1 client: 1 SYNCED")
	})
}
