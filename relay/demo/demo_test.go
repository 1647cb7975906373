package demo

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// until is an output that ends something once it holds what it should.
type until struct {
	bytes.Buffer
	texts []string // regular expressions
	end   func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if !slices.ContainsFunc(u.texts, func(text string) bool { return !regexp.MustCompile(text).MatchString(u.String()) }) {
		u.end()
	}
	return n, err
}

// TestRun runs a whole demo, until it has told of changes, and reads what it says.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	out := &until{end: cancel, texts: []string{
		`endpoints website +api,edge,shop +reached \d+/\d+  file→client \d`,
		`endpoints users +api +reached`, // nobody else's
	}}
	err := Run(ctx, Config{Out: out, Clients: 40, Every: 150 * time.Millisecond, Slow: 200 * time.Millisecond})
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out.String())
	}
	for _, want := range append(out.texts,
		`\(api, edge, shop\)`,
		`ACKs, 0 NACKs`,
		`verdict +all 40 clients have the last state`,
	) {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output has nothing like %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("plain lines hold control sequences:\n%q", out.String())
	}
	root := regexp.MustCompile(`directory +(\S+)`).FindStringSubmatch(out.String())[1]
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("the temporary directory is left behind: %v", err)
	}
}

// ownDirectory is a directory of the user's with the example files.
func ownDirectory(t *testing.T) string {
	t.Helper()
	root, err := copyExamples()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	return root
}

// started starts a demo on a directory of its own and waits until all clients
// hold everything.
func started(t *testing.T, live bool) (d *demo, out *bytes.Buffer) {
	t.Helper()
	out = &bytes.Buffer{}
	d, stop, err := start(Config{Out: out, Clients: 30, Slow: 20 * time.Millisecond, Dir: ownDirectory(t), Live: live})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		for _, c := range d.fleet.clients {
			for _, s := range c.streams {
				if v := s.Violations(); len(v) > 0 {
					t.Errorf("%s met %q", c.id, v)
				}
			}
		}
	})
	d.await(t, "the clients to have all resources", d.track.inStep)
	return d, out
}

// await goes on with a demo until something is true.
func (d *demo) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for d.step(); !done(); d.step() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %v", what, d.fleet.verify(d.files))
		}
		<-ticker.C
	}
}

func edit(t *testing.T, path, old, now string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	if _, err := replaceFile(path, bytes.ReplaceAll(b, []byte(old), []byte(now))); err != nil {
		t.Fatal(err)
	}
}

// TestHandEdit holds that an edit by hand is seen and followed to the clients
// of its key.
func TestHandEdit(t *testing.T) {
	d, _ := started(t, false)
	edit(t, filepath.Join(d.files.root, "api", "eds.yaml"), "8001", "8002")
	d.await(t, "two changes", func() bool { return len(d.track.events) == 2 && d.track.inStep() })
	for _, e := range d.track.events {
		r := e.reach()
		if !e.settled() || r.reached+r.slowReached != e.wanted || e.wanted == 0 || !slices.Equal(e.keys, []string{"api"}) || e.file != "api/eds.yaml" {
			t.Errorf("the change is %+v, reach %+v", e, r)
		}
		for _, a := range e.reached {
			if a.client.key != "api" || a.fromRelay < 0 || a.fromFile < a.fromRelay {
				t.Errorf("it came to %s, of key %s, %v after the file and %v after the relay", a.client.id, a.client.key, a.fromFile, a.fromRelay)
			}
		}
	}
}

// TestRejection holds that content which clients reject is no success.
func TestRejection(t *testing.T) {
	d, out := started(t, false)
	edit(t, filepath.Join(d.files.root, "edge", "eds.yaml"), "8001", "99999")
	d.await(t, "rejections", func() bool { return d.fleet.refused(d.files) })
	err := d.end()
	if err == nil || !strings.Contains(err.Error(), "of 30 clients do not have the last state") {
		t.Errorf("the verdict is %v", err)
	}
	for _, want := range []string{"endpoints assets: rejected it: ", "edge-envoy-delta-1", "response rejected by a client"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

// TestVerify holds that whatever a client lacks or holds wrongly is found.
func TestVerify(t *testing.T) {
	d, _ := started(t, false)
	if lacks := d.fleet.verify(d.files); len(lacks) > 0 {
		t.Fatalf("clients that hold everything lack %v", lacks)
	}
	c := d.fleet.clients[0]
	website, users := ref{endpointType, "website"}, ref{endpointType, "users"}
	for _, tc := range []struct {
		name   string
		tamper func()
		want   string
		ref    ref
	}{
		{"lacks", func() { delete(c.held, website) }, "does not have the resource", website},
		{"another version", func() { c.held[website] = c.held[users] }, "has another version", website},
		{"too much", func() { c.held[ref{endpointType, "cart"}] = c.held[users] }, "has the resource, although it should not", ref{endpointType, "cart"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := c.holds()
			tc.tamper()
			lacks := d.fleet.verify(d.files)
			c.held = before
			if len(lacks) != 1 || lacks[0].client != c || lacks[0].ref != tc.ref || lacks[0].why != tc.want {
				t.Errorf("found %+v, expected of %s: %s: %s", lacks, c.id, tc.ref, tc.want)
			}
		})
	}
}

// TestStaleFleet holds that a client that misses a change of the files is found even
// if the relay were content with it.
func TestStaleFleet(t *testing.T) {
	d, out := started(t, false)
	d.fleet.stop() // nothing reaches anybody any more
	edit(t, filepath.Join(d.files.root, "rds.yaml"), "5s", "6s")
	d.step()
	lacks := d.fleet.verify(d.files)
	if len(lacks) == 0 {
		t.Fatal("nobody lacks a change that came to nobody")
	}
	for _, l := range lacks {
		if l.ref != (ref{routeType, "front-routes"}) || l.why != "has another version" {
			t.Errorf("%s lacks %s: %s", l.client.id, l.ref, l.why)
		}
	}
	summarize(d, lacks)
	if !strings.Contains(out.String(), "do not have the last state") {
		t.Errorf("the summary is\n%s", out.String())
	}
}

// TestEdits holds that each edit of the examples changes what it should, and
// that all of it can be served.
func TestEdits(t *testing.T) {
	root := ownDirectory(t)
	files, err := openDirectory(root)
	if err != nil {
		t.Fatal(err)
	}
	e := newEditor(root)
	for range 2 * len(e.steps) {
		s := e.steps[e.turn%len(e.steps)]
		before := make(map[string]map[ref]*facts)
		for _, key := range files.keys() {
			before[key] = files.content(key)
		}
		if _, at, err := e.next(); err != nil || at.IsZero() {
			t.Fatalf("edit of %s at %v: %v", s.file, at, err)
		}
		files.read()
		if err := relay.CheckOrigins(&config.Config{Upstream: config.Upstream{Directory: root}}); err != nil {
			t.Fatalf("after an edit of %s: %v", s.file, err)
		}
		changed := 0
		for _, key := range files.keys() {
			if !maps.Equal(before[key], files.content(key)) {
				changed++
			}
		}
		want := 1
		if !strings.Contains(s.file, "/") {
			want = len(files.keys())
		}
		if changed != want {
			t.Errorf("the edit of %s changed %d keys, expected %d", s.file, changed, want)
		}
	}
}

// TestUsersText holds that an edit leaves what it does not find.
func TestUsersText(t *testing.T) {
	s := step{value: number("port: ")}
	for text, want := range map[string]string{
		"a\nport: 0099 # mine\nport: 1": "a\nport: 0100 # mine\nport: 1",
		"nothing":                       "nothing",
		"port: 99999999999999999999":    "port: 99999999999999999999",
	} {
		if got := string(s.edit([]byte(text))); got != want {
			t.Errorf("%q became %q, expected %q", text, got, want)
		}
	}
}

// TestBadConfig holds that mistakes are told and nothing is left running.
func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no output":        {},
		"no clients":       {Out: &bytes.Buffer{}, Clients: -1},
		"empty directory":  {Out: &bytes.Buffer{}, Dir: t.TempDir()},
		"missing":          {Out: &bytes.Buffer{}, Dir: filepath.Join(t.TempDir(), "none")},
		"address in words": {Out: &bytes.Buffer{}, Listen: "nowhere"},
	} {
		if err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
