package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"

	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/secure"
)

// handshakes lets clients in by TLS, and tells the operator of those that were not.
type handshakes struct {
	// Fixed after construction.
	rejections *rejection.Counter
	log        *slog.Logger

	lines limit.Lines // of the log
}

// adminListener is the name of the admin port in the log.
const adminListener = "admin"

func newHandshakes(meter metric.Meter, log *slog.Logger) (h *handshakes, err error) {
	h = &handshakes{log: log}
	h.rejections, err = rejection.New(meter)
	return h, err
}

// by makes what shakes hands on a listener.
func (h *handshakes) by(listener string, s *secure.Server) func(net.Conn) (net.Conn, aggregation.Connection, error) {
	return func(raw net.Conn) (net.Conn, aggregation.Connection, error) {
		conn, info, recheck, err := s.Handshake(raw)
		if err != nil {
			h.tell(listener, raw.RemoteAddr(), err)
			return nil, aggregation.Connection{}, err
		}
		return conn, aggregation.Connection{TLS: info, Recheck: recheck}, nil
	}
}

// closed is called with the connections of an HTTP server when they are over: net/http
// shakes hands by itself, and only writes that it failed.
func (h *handshakes) closed(listener string) func(net.Conn, http.ConnState) {
	return func(c net.Conn, state http.ConnState) {
		conn, ok := c.(*tls.Conn)
		if !ok || state != http.StateClosed || conn.ConnectionState().HandshakeComplete {
			return
		}
		// It keeps the error of the first attempt.
		if err := conn.HandshakeContext(context.Background()); err != nil && !errors.Is(err, net.ErrClosed) {
			h.tell(listener, c.RemoteAddr(), err)
		}
	}
}

// tell counts a failure, and logs one now and then: there may be thousands.
func (h *handshakes) tell(listener string, from net.Addr, err error) {
	word, hint := secure.Why(err)
	where := rejection.Connection
	if listener == adminListener {
		where = rejection.Admin
	}
	h.rejections.Add(where, rejection.TLS(word))
	more, due := h.lines.Next(time.Now(), logPause)
	if !due {
		return
	}
	h.log.Warn("TLS handshake with a client failed; further failures are counted only", "listener", listener, "peer", from.String(),
		"reason", word, "error", err, "hint", hint, "more_since_last", more)
}
