package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// link is a key's attempt to have a stream to one server. A goroutine of its
// own opens streams, receives, and paces; see pursue.
type link struct {
	// Fixed after construction.
	server *server
	events chan<- event
	stop   context.CancelFunc
	probes *suspect // what the only stream is for, and of which link; nil for a link
	of     *link    // that goes on; see probe.go

	// Owned by the runner.
	session *session // the open stream, nil if there is none
	failed  bool     // connectivity failed, and no response since (C15)
	trial
}

// event is what a link tells its runner, one at a time.
type event struct {
	link    *link
	session *session // nil where no stream could be opened
	kind    eventKind
	// response comes with evResponse; end with evEnded and evFailed.
	response *resource.Response
	end      ending
}

type eventKind int

const (
	evFailed   eventKind = iota // no stream could be opened
	evOpened                    // there is a stream; nothing has been sent
	evHeaders                   // the server has accepted the stream
	evResponse                  // a response
	evEnded                     // the stream is over
)

// tell hands ev over and reports whether somebody still listens.
func (l *link) tell(ctx context.Context, ev event) bool {
	ev.link = l
	select {
	case l.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}

// pursue keeps trying to have a stream until ctx ends.
func (l *link) pursue(ctx context.Context) {
	cp := l.server.owner
	first := true
	persist(ctx, cp.cfg.Backoff, l.server, func(ctx context.Context) ending {
		if !first {
			cp.metrics.reconnect()
		}
		first = false
		return l.attempt(ctx)
	})
}

// attempt opens a stream and receives until it ends.
func (l *link) attempt(ctx context.Context) (end ending) {
	cp := l.server.owner
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connected := cp.cfg.Tracer.Begin("connect", attribute.String("server.address", l.server.address), attribute.Bool("xdsrelay.peer", cp.cfg.Peer != ""))
	stream, err := l.server.open(sctx)
	if err != nil {
		connected(redact.Error(err))
		end.err = err
		l.tell(ctx, event{kind: evFailed, end: end})
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
		l.tell(ctx, event{session: s, kind: evEnded, end: end})
	}()
	if !l.tell(ctx, event{session: s, kind: evOpened}) {
		return end
	}
	if md, _ := stream.Header(); len(md) > 0 { // an error is told by RecvMsg too
		connected("")
		if !l.tell(ctx, event{session: s, kind: evHeaders}) {
			return end
		}
	}
	for {
		m := incoming{delta: cp.cfg.Delta, peer: cp.cfg.Peer != ""}
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
			connected("") // if the headers have not said so
		}
		if !l.tell(ctx, event{session: s, kind: evResponse, response: m.response}) {
			return end
		}
	}
}

// endOf says why a stream ended: the reason for which this side cancelled it,
// which makes it ours, or what the server said.
func endOf(ctx context.Context, err error) (ours bool, why error) {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return true, cause
	}
	return false, fmt.Errorf("the stream ended: %w", err)
}
