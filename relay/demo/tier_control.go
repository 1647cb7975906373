package demo

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// controlPlane serves a directory over xDS, as a relay on its own does. It is in this
// process, and can be cut off.
type controlPlane struct {
	// Fixed after construction.
	addr, admin string
	ended       chan error // gets what Run returned, once
	end         context.CancelFunc
	port        *cuttable
	client      *http.Client
}

func startControlPlane(version, dir string) (*controlPlane, error) {
	const address = "localhost:0" // the port that can be cut off, unlike that for operators
	c, err := config.Load(config.Input{Flags: []config.Flag{
		{Name: "demo", Field: "upstream.directory", Value: dir},
		{Name: "demo", Field: "listener.address", Value: address},
		{Name: "demo", Field: "admin.address", Value: "127.0.0.1:0"},
		{Name: "demo", Field: "drain.duration", Value: "0s"},
		{Name: "demo", Field: "drain.grace", Value: "1s"},
	}})
	if err != nil {
		return nil, err
	}
	p := &controlPlane{ended: make(chan error, 1), port: &cuttable{conns: make(map[net.Conn]struct{})}, client: &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}}
	r, err := relay.New(c, relay.Options{Version: version, Logger: slog.New(slog.DiscardHandler), Listen: func(at string) (net.Listener, error) {
		if at != address {
			return new(net.ListenConfig).Listen(context.Background(), "tcp", at)
		}
		var err error
		p.port.Listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		return p.port, err
	}})
	if err != nil {
		return nil, err
	}
	p.addr, p.admin = r.Addr(), r.AdminAddr()
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	go func() { p.ended <- r.Run(ctx) }()
	return p, nil
}

// stop ends it. Where it has exited before, that was reported.
func (p *controlPlane) stop() error {
	p.client.CloseIdleConnections()
	p.end()
	p.port.cut()
	return <-p.ended
}

func (p *controlPlane) cut()     { p.port.cut() }
func (p *controlPlane) restore() { p.port.restore() }

// streams is how many xDS streams it has.
func (p *controlPlane) streams() (n int, err error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text := lines.Text(); strings.HasPrefix(text, "xdsrelay_downstream_streams{") {
			v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
			if err != nil {
				return 0, fmt.Errorf("metrics: %w", err)
			}
			n += int(v)
		}
	}
	return n, lines.Err()
}

// cuttable is a port whose connections can all be cut, and new ones with them. It is safe
// for concurrent use.
type cuttable struct {
	net.Listener // fixed before it is used

	mu sync.Mutex
	// Guarded by mu.
	off   bool
	conns map[net.Conn]struct{}
}

// Accept implements [net.Listener].
func (l *cuttable) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		off := l.off
		if !off {
			l.conns[c] = struct{}{}
		}
		l.mu.Unlock()
		if !off {
			return &cuttableConn{c, l}, nil
		}
		_ = c.Close()
	}
}

func (l *cuttable) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = true
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *cuttable) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = false
}

// cuttableConn is a connection that its port knows of.
type cuttableConn struct {
	net.Conn
	port *cuttable
}

// Close implements [net.Conn].
func (c *cuttableConn) Close() error {
	c.port.mu.Lock()
	delete(c.port.conns, c.Conn)
	c.port.mu.Unlock()
	return c.Conn.Close()
}
