package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// patience is how long a child may take to end after its input did.
const patience = 10 * time.Second

// Child is a started program. Its methods may be called from any goroutine.
type Child struct {
	// Fixed after construction.
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready json.RawMessage
	lines <-chan line   // what it writes; closed at the end of its output
	ended chan struct{} // closed when it has ended
	alive func() bool   // calls off that it ends with its context

	ending error // why it ended; to be read after ended is closed

	mu     sync.Mutex // held during an order
	broken error      // guarded by mu: why it takes no more orders
}

// Start starts a program and waits until it is ready. The command has to be
// without pipes; what it writes to standard error goes to ours, unless the
// command says where. The program is killed when ctx ends; before that, the
// caller has to end it by [Child.Close].
func Start(ctx context.Context, cmd *exec.Cmd) (*Child, error) {
	c := &Child{name: filepath.Base(cmd.Path), cmd: cmd, ended: make(chan struct{})}
	if len(cmd.Args) > 1 {
		c.name += " " + cmd.Args[1]
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	c.in = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	lines := make(chan line)
	c.lines = lines
	c.alive = context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	go c.read(out, lines)
	first, err := c.next(ctx)
	if err == nil && first.Ready == nil {
		err = errors.New(`its first line is not "ready"`)
	}
	if err != nil {
		err = fmt.Errorf("start %s: %w", c.name, err)
		_ = cmd.Process.Kill()
		_ = c.Close()
		return nil, err
	}
	c.ready = first.Ready
	return c, nil
}

// read passes on what the child writes until its output ends, and waits for its
// end. What comes after the first line that is none of ours is not read.
func (c *Child) read(out io.Reader, lines chan<- line) {
	var wrong error
	for from := json.NewDecoder(out); ; {
		var l line
		if err := from.Decode(&l); err != nil {
			if !errors.Is(err, io.EOF) {
				wrong = fmt.Errorf("what it writes is no reply: %w", err)
				_ = c.cmd.Process.Kill()
			}
			break
		}
		lines <- l
	}
	c.ending = errors.Join(wrong, c.cmd.Wait())
	close(c.ended)
	close(lines)
}

// next waits for the child's next line.
func (c *Child) next(ctx context.Context) (line, error) {
	select {
	case l, ok := <-c.lines:
		switch {
		case ok:
			return l, nil
		case c.ending != nil:
			return l, fmt.Errorf("it ended without an answer: %w", c.ending)
		}
		return l, errors.New("it ended without an answer")
	case <-ctx.Done():
		return line{}, context.Cause(ctx)
	}
}

// Name is the program's name with its first argument, for messages.
func (c *Child) Name() string { return c.name }

// Pid is the child's process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Ready reads what the child said when it was ready.
func (c *Child) Ready(into any) error {
	if err := json.Unmarshal(c.ready, into); err != nil {
		return fmt.Errorf("%s: ready: %w", c.name, err)
	}
	return nil
}

// Ended is closed when the child has ended, for whatever reason.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Call gives an order and waits for the reply. args may be nil for none, and
// reply nil if it does not matter. Orders from several goroutines are done one
// after the other. After an error of the connection, and after a call whose
// context ended, the child takes no more orders; after an error of the order's
// it does.
func (c *Child) Call(ctx context.Context, do string, args, reply any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return fmt.Errorf("%s: %s: it takes no more orders: %w", c.name, do, c.broken)
	}
	o := order{Do: do}
	if args != nil {
		b, err := json.Marshal(args)
		if err != nil {
			return fmt.Errorf("%s: %s: arguments: %w", c.name, do, err)
		}
		o.Args = b
	}
	l, err := c.exchangeLocked(ctx, o)
	if err != nil {
		c.broken = err
		return fmt.Errorf("%s: %s: %w", c.name, do, err)
	}
	if l.Error != "" {
		return fmt.Errorf("%s: %s: %s", c.name, do, l.Error)
	}
	if reply != nil {
		if err := json.Unmarshal(l.Reply, reply); err != nil {
			return fmt.Errorf("%s: %s: reply: %w", c.name, do, err)
		}
	}
	return nil
}

func (c *Child) exchangeLocked(ctx context.Context, o order) (line, error) {
	if err := json.NewEncoder(c.in).Encode(o); err != nil {
		select {
		case <-c.ended: // says more than a broken pipe
			return c.next(ctx)
		case <-time.After(time.Second):
			return line{}, err
		}
	}
	return c.next(ctx)
}

// Close ends the child and waits for it. It returns an error if the child ended
// otherwise than by itself and in order. Further calls return the same.
func (c *Child) Close() error {
	_ = c.in.Close() // closed by an earlier call or by the end of the child
	go func() {
		for range c.lines { // an answer that nobody waits for holds its reader up
			continue
		}
	}()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-c.ended:
	case <-timeout.C:
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
	c.alive()
	if c.ending != nil {
		return fmt.Errorf("%s: %w", c.name, c.ending)
	}
	return nil
}
