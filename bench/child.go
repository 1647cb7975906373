package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// childEnv tells a process that it is a child, and what it has to do.
const childEnv = "XDSBENCH_CHILD"

// role is what a child is told to be.
type role struct {
	Role string
	Idle idleSpec
}

// order is one thing that a child is told to do, and answer the reply.
type order struct {
	Do      string
	Count   int    `json:",omitempty"`
	Profile string `json:",omitempty"`
}

type reply struct {
	Err   string `json:",omitempty"`
	Addr  string `json:",omitempty"`
	Usage *Usage `json:",omitempty"`
}

// Child does what this process was started for, and does not return, if it was
// started by this package. A program that measures calls it first of all.
func Child() {
	told := os.Getenv(childEnv)
	if told == "" {
		return
	}
	if err := runChild(told); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(told string) error {
	var r role
	if err := json.Unmarshal([]byte(told), &r); err != nil {
		return fmt.Errorf("%s: %w", childEnv, err)
	}
	var handle func(order) (reply, error)
	var end func()
	var err error
	switch r.Role {
	case "server":
		handle, end, err = newIdleServer(r.Idle)
	case "clients":
		handle, end, err = newIdleClients(r.Idle)
	default:
		err = fmt.Errorf("%s: unknown role %q", childEnv, r.Role)
	}
	if err != nil {
		return err
	}
	defer end()
	// The parent closes our input when it is done, or when it dies.
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		switch err := in.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("orders: %w", err)
		}
		answer, err := handle(o)
		if err != nil {
			answer.Err = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("answers: %w", err)
		}
	}
}

// child is a started process, used by one goroutine.
type child struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	orders *json.Encoder
	out    *json.Decoder
}

// startChild starts this program again in a role. It ends with ctx at the
// latest.
func startChild(ctx context.Context, r role) (*child, error) {
	told, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Role, err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(told))
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Role, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Role, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Role, err)
	}
	return &child{
		name: r.Role, cmd: cmd, in: in,
		orders: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out)),
	}, nil
}

// tell gives an order and waits for it to be done.
func (c *child) tell(o order) (reply, error) {
	var r reply
	if err := c.orders.Encode(o); err != nil {
		return r, fmt.Errorf("%s: %s: %w", c.name, o.Do, err)
	}
	if err := c.out.Decode(&r); err != nil {
		return r, fmt.Errorf("%s: %s: it ended without an answer: %w", c.name, o.Do, err)
	}
	if r.Err != "" {
		return r, fmt.Errorf("%s: %s: %s", c.name, o.Do, r.Err)
	}
	return r, nil
}

// end lets the process end, and waits for it.
func (c *child) end() error {
	err := c.in.Close()
	if e := c.cmd.Wait(); e != nil {
		return fmt.Errorf("%s: %w", c.name, e)
	}
	return err
}
