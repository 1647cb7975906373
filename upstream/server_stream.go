package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/quarantine"
)

// serverStream keeps one stream of a key to one server open. A goroutine of its own opens streams,
// receives, and paces reconnects; see keepOpen.
type serverStream struct {
	// Fixed after construction.
	server   *server
	events   chan<- event
	stop     context.CancelFunc
	probeFor *resource.Type                        // the quarantined type that a probe stream is for; nil for others
	primary  *serverStream                         // of a probe stream: the server stream whose type it requests; see probe.go
	earlier  func(*resource.Type) resource.Earlier // see [cache.Feed.Earlier]

	// Owned by the runner.
	session *session // the open stream, nil if there is none
	failed  bool     // connectivity failed, and no response since (C15)
	types   quarantine.Types
	probe   *serverStream // the probe stream, or the attempt to open it; nil if there is none
}

// event is what a server stream reports to its runner, one at a time.
type event struct {
	serverStream *serverStream
	session      *session // nil if no stream could be opened
	kind         eventKind
	// response is set for evResponse; end for evEnded and evFailed.
	response *resource.Response
	end      ending
}

type eventKind int

const (
	evFailed   eventKind = iota // no stream could be opened
	evOpened                    // a stream is open; nothing has been sent
	evHeaders                   // the server has accepted the stream
	evResponse                  // a response
	evEnded                     // the stream has ended
)

// emit hands ev to the runner and reports whether ctx is still active.
func (l *serverStream) emit(ctx context.Context, ev event) bool {
	ev.serverStream = l
	select {
	case l.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}

// keepOpen opens streams until ctx ends.
func (l *serverStream) keepOpen(ctx context.Context) {
	cp := l.server.owner
	first := true
	retryLoop(ctx, cp.cfg.Backoff, l.server, func(ctx context.Context) ending {
		if !first {
			cp.metrics.reconnect()
		}
		first = false
		return l.runStream(ctx)
	})
}

// runStream opens a stream and receives until it ends.
func (l *serverStream) runStream(ctx context.Context) (end ending) {
	cp := l.server.owner
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connected := cp.cfg.Tracer.Begin("connect", attribute.String("server.address", l.server.address), attribute.Bool("xdsrelay.peer", cp.cfg.Peer != ""))
	stream, err := l.server.open(sctx)
	if err != nil {
		connected(redact.Error(err))
		end.err = err
		l.emit(ctx, event{kind: evFailed, end: end})
		return end
	}
	end.opened = true
	s := newSession(l, stream, cancel)
	defer func() {
		end.lived = time.Since(s.opened)
		cancel(end.err)
		if !end.responded {
			connected(redact.Error(end.err))
		}
		l.emit(ctx, event{session: s, kind: evEnded, end: end})
	}()
	if !l.emit(ctx, event{session: s, kind: evOpened}) {
		return end
	}
	if md, _ := stream.Header(); len(md) > 0 { // RecvMsg returns an error, too
		connected("")
		if !l.emit(ctx, event{session: s, kind: evHeaders}) {
			return end
		}
	}
	for {
		m := incoming{delta: cp.cfg.Delta, peer: cp.cfg.Peer != "", earlier: l.earlier}
		if err := stream.RecvMsg(&m); err != nil {
			end.ours, end.err = endOf(sctx, err)
			return end
		}
		if m.err != nil {
			end.unreadable = true
			end.err = fmt.Errorf("a response cannot be read: %w", m.err)
			return end
		}
		if !end.responded {
			end.responded = true
			connected("") // if the headers have not done so
		}
		if !l.emit(ctx, event{session: s, kind: evResponse, response: m.response}) {
			return end
		}
	}
}

// endOf returns why a stream ended: the reason for which this side cancelled it, with ours true, or
// the error from the server.
func endOf(ctx context.Context, err error) (ours bool, why error) {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return true, cause
	}
	return false, fmt.Errorf("the stream ended: %w", err)
}
