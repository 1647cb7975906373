package relay

import (
	"context"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/secure"
)

// handshakes lets clients in by TLS, and tells the operator of those that were not.
type handshakes struct {
	// Fixed after construction.
	failed metric.Int64Counter
	log    *slog.Logger

	lines limit.Lines // of the log
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
	more, due := h.lines.Next(time.Now(), logPause)
	if !due {
		return
	}
	h.log.Warn("a client was refused in the TLS handshake; further ones are counted", "listener", listener, "peer", from.String(),
		"reason", word, "error", err, "hint", hint, "more_since_last", more)
}
