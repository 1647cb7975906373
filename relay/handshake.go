package relay

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/secure"
)

// handshakes lets clients in by TLS, and tells the operator of those that were not.
type handshakes struct {
	// Fixed after construction.
	failed metric.Int64Counter
	log    *slog.Logger

	logged atomic.Int64 // when, in ns since 1970
}

func newHandshakes(meter metric.Meter, log *slog.Logger) (h *handshakes, err error) {
	h = &handshakes{log: log}
	h.failed, err = meter.Int64Counter("xdsrelay.downstream.handshakes.failed",
		metric.WithDescription("Connections of clients that were refused in the TLS handshake, by listener and reason."))
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

// tell counts a failure, and logs one now and then: there may be thousands.
func (h *handshakes) tell(listener string, from net.Addr, err error) {
	word, hint := secure.Why(err)
	h.failed.Add(context.Background(), 1, metric.WithAttributes(attribute.String("listener", listener), attribute.String("reason", word)))
	now, last := time.Now().UnixNano(), h.logged.Load()
	if now-last < int64(logPause) || !h.logged.CompareAndSwap(last, now) {
		return
	}
	h.log.Warn("a client was refused in the TLS handshake; further ones are counted", "listener", listener, "peer", from.String(),
		"reason", word, "error", err, "hint", hint)
}
