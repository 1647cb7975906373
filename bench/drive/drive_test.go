package drive

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/bench/content"
	"xdsrelay/bench/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a server that greets who connects.
type stub struct {
	spec    content.Spec
	counter Counter
	slow    time.Duration // what a change takes
	err     error         // of the third change

	mu      sync.Mutex
	state   *content.State
	changes []time.Duration // how late each change began
}

func newStub() *stub {
	s := &stub{spec: content.Spec{Keys: 1, Clusters: 3}}
	s.state = content.NewState(s.spec, time.Now())
	return s
}

func (s *stub) Spec() *content.Spec { return &s.spec }
func (s *stub) Counter() *Counter   { return &s.counter }

func (s *stub) Change(c content.Change, at time.Time) (content.Stamp, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, time.Since(at))
	if s.err != nil && len(s.changes) == 3 {
		return content.Stamp{}, s.err
	}
	step, err := s.state.Next(c, at)
	<-time.After(s.slow)
	return step.Stamp, err
}

func (s *stub) Listening() Listening { return &greeter{conns: map[net.Conn]bool{}} }

type greeter struct {
	mu      sync.Mutex
	conns   map[net.Conn]bool
	l       net.Listener
	stopped bool
}

func (g *greeter) Serve(l net.Listener) error {
	g.mu.Lock()
	g.l = l
	if g.stopped {
		_ = l.Close()
	}
	g.mu.Unlock()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		g.mu.Lock()
		g.conns[c] = true
		g.mu.Unlock()
		_, _ = c.Write([]byte("hello"))
	}
}

func (g *greeter) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	if g.l != nil {
		_ = g.l.Close()
	}
	for c := range g.conns {
		_ = c.Close()
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, expected one with %q", err, want)
	}
}

// greeting connects and returns what the server says.
func greeting(t *testing.T, addr string) (net.Conn, error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Fatalf("the greeting is %q (%v)", b, err)
	}
	return c, nil
}

// TestUpDown holds that a server that is down cuts and refuses its clients, and
// comes back at its address, which nobody else can have in the meantime.
func TestUpDown(t *testing.T) {
	d, err := New(newStub(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := New(newStub(), d.Addr()); err == nil {
		t.Error("two servers have one address")
	}
	for range 3 {
		c, err := greeting(t, d.Addr())
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, d.Up(), "up already")
		if err := d.Down(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is not cut")
		}
		_ = c.Close()
		if c, err := net.Dial("tcp", d.Addr()); err == nil {
			_ = c.Close()
			t.Error("a server that is down accepts connections")
		}
		wantError(t, d.Down(), "down already")
		if err := d.Up(); err != nil {
			t.Fatal(err)
		}
	}
	for bad, want := range map[string]string{
		"localhost:0": `listen: got address "localhost:0", expected IPv4`,
		"[::1]:0":     "expected IPv4", "": "expected IPv4", "127.0.0.1": "expected IPv4", "127.0.0.1:99999": "expected IPv4",
		"192.0.2.1:1": "listen: 192.0.2.1:1: cannot assign",
	} {
		_, err := New(newStub(), bad)
		wantError(t, err, want)
	}
	_, err = New(&stub{}, "127.0.0.1:0")
	wantError(t, err, "keys: got 0")
}

// TestSchedule holds that changes are stamped with the times that were planned,
// however long they take, and that the revisions are those that were told.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		s.slow = 1500 * time.Millisecond
		d := driver(s)
		defer d.end()
		if got, err := d.Change(content.Change{Kind: content.One}); err != nil || got.Revision != 1 {
			t.Fatalf("the first change is %v (%v), expected revision 1", got, err)
		}
		began := time.Now()
		plan, err := d.Start(Schedule{Change: content.Change{Kind: content.Full}, Interval: time.Second, Count: 3})
		if err != nil {
			t.Fatal(err)
		}
		want := Planned{First: Changed{2, began.Add(time.Second)}, Last: Changed{4, began.Add(3 * time.Second)}}
		if !plan.First.At.Equal(want.First.At) || !plan.Last.At.Equal(want.Last.At) ||
			plan.First.Revision != 2 || plan.Last.Revision != 4 {
			t.Errorf("the plan is %v, expected %v", plan, want)
		}
		_, err = d.Change(content.Change{Kind: content.One})
		wantError(t, err, `a schedule runs; order "stop" ends it`)
		_, err = d.Start(Schedule{Change: content.Change{Kind: content.One}, Interval: time.Second})
		wantError(t, err, "a schedule runs")
		if !d.Stats().Scheduled {
			t.Error("no schedule runs")
		}
		d.work.Wait()
		stats := d.Stats()
		if stats.Scheduled || stats.Revision != 4 || stats.Late != 2500*time.Millisecond || stats.Error != "" {
			t.Errorf("after the schedule: %+v, expected revision 4, 2.5s late", stats)
		}
		if got := s.changes[1:]; !reflect.DeepEqual(got, []time.Duration{0, time.Second / 2, time.Second}) {
			t.Errorf("the changes began %v late, expected 0, 0.5 and 1 s", got)
		}
		if at := s.state.Revision().At; !at.Equal(plan.Last.At) {
			t.Errorf("the last stamp is of %v, expected %v", at, plan.Last.At)
		}
	})
}

// TestScheduleEnds holds the ways in which a schedule ends: by an order, by an
// error and with the server.
func TestScheduleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		d := driver(s)
		forever := Schedule{Change: content.Change{Kind: content.One}, Interval: time.Second}
		for i := range 2 {
			plan, err := d.Start(forever)
			if err != nil || plan.Last != (Changed{}) {
				t.Fatalf("plan %v (%v), expected one without end", plan, err)
			}
			<-time.After(1500 * time.Millisecond)
			if last := d.Stop(); last.Revision != uint64(i+1) {
				t.Errorf("stopped after revision %d, expected %d", last.Revision, i+1)
			}
		}
		d.work.Wait()
		s.err = errors.New("broken")
		if _, err := d.Start(forever); err != nil {
			t.Fatal(err)
		}
		d.work.Wait()
		if stats := d.Stats(); stats.Error != "broken" || stats.Scheduled {
			t.Errorf("after an error: %+v", stats)
		}
		if _, err := d.Start(forever); err != nil {
			t.Fatal(err)
		}
		if stats := d.Stats(); stats.Error != "" || stats.Late != 0 {
			t.Errorf("a new schedule has the old one's outcome: %+v", stats)
		}
		d.end()
		d.work.Wait()
		_, err := d.Start(forever)
		wantError(t, err, "a schedule runs")
	})
}

// driver is a driver without a port, which virtual time has no place for.
func driver(s Server) *Driver {
	d := &Driver{server: s}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// TestOrders holds the orders in the form that they come in.
func TestOrders(t *testing.T) {
	s := newStub()
	d, err := New(s, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s.counter.Opened()
	s.counter.Opened()
	s.counter.Closed()
	s.counter.Request(content.ClusterURL, 10, false)
	s.counter.Request("", 1, true)
	s.counter.Responses(content.EndpointURL, 3, 100)

	var out strings.Builder
	in := strings.NewReader(`{"do":"change","args":{"kind":"one","type":"` + content.EndpointURL + `"}}
		{"do":"change","args":{"kind":"none"}}
		{"do":"schedule","args":{"kind":"one","interval":1,"count":1}}
		{"do":"schedule","args":{"kind":"one","interval":1000000,"count":-1}}
		{"do":"schedule","args":{"kind":"two","interval":1000000}}
		{"do":"schedule","args":{"kind":"burst","resources":2,"interval":3600000000000}}
		{"do":"stop"}
		{"do":"down"}
		{"do":"up"}
		{"do":"stats"}`)
	if err := control.Serve(t.Context(), in, &out, Ready{Addr: d.Addr()}, d.Handlers()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`{"ready":{"addr":"` + d.Addr() + `"}}`,
		`{"reply":{"revision":1,"at":"20`,
		`{"error":"change: got kind \"none\", expected one, burst or full"}`,
		`{"error":"schedule: got an interval of 1ns, expected at least 100µs"}`,
		`{"error":"schedule: got a count of -1, expected 0 or more"}`,
		`{"error":"change: got kind \"two\"`,
		`{"reply":{"first":{"revision":2,"at":"20`,
		`{"reply":{"revision":1,"at":"20`,
		`{"reply":{}}`,
		`{"reply":{}}`,
		`{"reply":{"streams":1,"streams_total":2,"requests":2,"responses":3,"nacks":1,"bytes_in":11,"bytes_out":300,"by_type":{`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, expected %d:\n%s", len(lines), len(want), out.String())
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d is %s, expected %s", i, lines[i], want[i])
		}
	}
	var last struct{ Reply Stats }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	byType := map[string]Counts{content.ClusterURL: {Requests: 1, BytesIn: 10}, content.EndpointURL: {Responses: 3, BytesOut: 300}}
	if last.Reply.Revision != 1 || !reflect.DeepEqual(last.Reply.ByType, byType) {
		t.Errorf("stats %+v, expected revision 1 and %v", last.Reply, byType)
	}
}
