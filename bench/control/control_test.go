package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asChild makes this test's program a child that behaves as the value says.
const asChild = "XDSBENCH_CONTROL_TEST"

func TestMain(m *testing.M) {
	if how := os.Getenv(asChild); how != "" {
		child(how)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

// handlers are what the child of these tests can do.
func handlers() map[string]Handler {
	return map[string]Handler{
		"add":  On(func(_ context.Context, s sum) (int, error) { return s.A + s.B, nil }),
		"fail": On(func(context.Context, Nothing) (Nothing, error) { return Nothing{}, errors.New("no way") }),
		"odd":  On(func(context.Context, Nothing) (any, error) { return func() {}, nil }),
		"die":  On(func(context.Context, Nothing) (Nothing, error) { os.Exit(3); return Nothing{}, nil }),
		"wait": On(func(ctx context.Context, _ Nothing) (Nothing, error) {
			fmt.Fprintln(os.Stderr, "waiting")
			<-ctx.Done()
			return Nothing{}, ctx.Err()
		}),
	}
}

func child(how string) {
	switch how {
	case "good":
		if err := Serve(context.Background(), os.Stdin, os.Stdout, map[string]string{"addr": "here"}, handlers()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "talks":
		fmt.Println("hello")
		_, _ = io.ReadAll(os.Stdin)
	case "early":
		fmt.Println(`{"reply":1}`)
		_, _ = io.ReadAll(os.Stdin)
	case "ends":
	}
}

func command(t *testing.T, how string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"="+how)
	return cmd
}

func start(ctx context.Context, t *testing.T) *Child {
	t.Helper()
	c, err := Start(ctx, command(t, "good"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// wantError holds that an error says what it should.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, expected one with %q", err, want)
	}
}

// TestChild holds what a parent and a child say to each other: ready, orders,
// errors of orders, which end nothing, and the end.
func TestChild(t *testing.T) {
	c := start(t.Context(), t)
	var ready struct{ Addr string }
	if err := c.Ready(&ready); err != nil || ready.Addr != "here" {
		t.Errorf("ready with %+v (%v), expected addr here", ready, err)
	}
	var got int
	if err := c.Call(t.Context(), "add", sum{A: 2, B: 3}, &got); err != nil || got != 5 {
		t.Errorf("add: %d (%v), expected 5", got, err)
	}
	wantError(t, c.Call(t.Context(), "fail", nil, nil), "fail: no way")
	wantError(t, c.Call(t.Context(), "fly", nil, nil), `unknown order "fly", expected one of add, die, fail, odd, wait`)
	wantError(t, c.Call(t.Context(), "add", map[string]int{"c": 1}, nil), `arguments: json: unknown field "c"`)
	wantError(t, c.Call(t.Context(), "odd", nil, nil), "odd: reply: json")
	wantError(t, c.Call(t.Context(), "add", func() {}, nil), "add: arguments: json")
	wantError(t, c.Call(t.Context(), "add", nil, new(string)), "add: reply: json")
	if err := c.Call(t.Context(), "add", nil, &got); err != nil || got != 0 {
		t.Errorf("add of nothing: %d (%v), expected 0", got, err)
	}
	if c.Pid() == os.Getpid() || c.Pid() <= 0 {
		t.Errorf("process id %d", c.Pid())
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	wantError(t, c.Call(t.Context(), "add", nil, nil), "it ended without an answer")
	wantError(t, c.Call(t.Context(), "add", nil, nil), "it takes no more orders")
}

// TestChildDies holds that the end of a child in the middle of an order is told.
func TestChildDies(t *testing.T) {
	c := start(t.Context(), t)
	wantError(t, c.Call(t.Context(), "die", nil, nil), "die: it ended without an answer: exit status 3")
	<-c.Ended()
	wantError(t, c.Close(), "exit status 3")
}

// TestCallEnds holds that a call does not outlast its context, and that the end
// of the child's input ends what it does.
func TestCallEnds(t *testing.T) {
	c := start(t.Context(), t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantError(t, c.Call(ctx, "wait", nil, nil), "wait: context deadline exceeded")
	wantError(t, c.Call(t.Context(), "add", nil, nil), "it takes no more orders")
	if err := c.Close(); err != nil {
		t.Errorf("the child did not end in order: %v", err)
	}
}

// TestContextKills holds that a child does not outlive its context.
func TestContextKills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := start(ctx, t)
	cancel()
	<-c.Ended()
	wantError(t, c.Close(), "killed")
}

// TestStart holds that programs that are no children are told apart.
func TestStart(t *testing.T) {
	for how, want := range map[string]string{
		"talks": "what it writes is no reply",
		"early": `its first line is not "ready"`,
		"ends":  "it ended without an answer",
	} {
		_, err := Start(t.Context(), command(t, how))
		wantError(t, err, want)
	}
	_, err := Start(t.Context(), exec.Command("/nowhere", "origin"))
	wantError(t, err, "start nowhere origin: fork/exec /nowhere: no such file or directory")
}

// TestServe holds the lines of the child's side.
func TestServe(t *testing.T) {
	for _, tc := range []struct{ in, out, err string }{
		{"", "", ""},
		{`{"do":"add","args":{"a":1}}` + "\n" + `{"do":"fail"}`, `{"reply":1}` + "\n" + `{"error":"no way"}` + "\n", ""},
		{`{"do":"add"}x`, `{"reply":0}` + "\n", "control: orders: invalid character 'x'"},
	} {
		var out strings.Builder
		err := Serve(t.Context(), strings.NewReader(tc.in), &out, 7, handlers())
		if got := out.String(); got != `{"ready":7}`+"\n"+tc.out {
			t.Errorf("%q is answered with %q", tc.in, got)
		}
		if tc.err == "" && err != nil {
			t.Errorf("%q: %v", tc.in, err)
		} else if tc.err != "" {
			wantError(t, err, tc.err)
		}
	}
	wantError(t, Serve(t.Context(), strings.NewReader(""), io.Discard, func() {}, nil), "report that it is ready")
}

// TestOpenFiles holds that too much is refused.
func TestOpenFiles(t *testing.T) {
	if err := OpenFiles(64); err != nil {
		t.Error(err)
	}
	wantError(t, OpenFiles(1<<40), "expected at least 1099511627776")
}
