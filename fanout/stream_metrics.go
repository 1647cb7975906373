package fanout

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/fanout/conn"
)

// surveyEvery is the minimum time between two surveys, however often metrics are read.
const surveyEvery = time.Second

// survey counts the states of clients by visiting every stream when metrics are read. So it costs
// nothing while clients are served.
type survey struct {
	srv *Server // fixed

	mu sync.Mutex
	// Guarded by mu.
	at      time.Time
	clients int64
	unacked int64
	states  map[standingOf]int64
	behind  map[string]int64 // by type
}

// standingOf is the state of clients for a type.
type standingOf struct {
	typeKey
	standing
}

// lookLocked updates the survey. The caller holds mu.
func (v *survey) lookLocked() {
	now := time.Now()
	if now.Sub(v.at) < surveyEvery {
		return
	}
	v.at = now
	v.clients, v.unacked, v.states, v.behind = 0, 0, make(map[standingOf]int64), make(map[string]int64)
	conns := make(map[*conn.Conn]struct{})
	for _, st := range v.srv.snapshot() {
		if st.conn == nil {
			v.clients++
		} else {
			conns[st.conn] = struct{}{}
		}
		v.add(st)
	}
	v.clients += int64(len(conns))
}

func (v *survey) add(st *stream) {
	st.mu.Lock()
	defer st.mu.Unlock()
	v.unacked += int64(st.unacked)
	for _, ts := range st.types {
		h, label := ts.table.State(&ts.watcher), ts.metrics.key.label
		if h.IsEmpty() {
			continue // unsubscribed from everything of the type
		}
		v.states[standingOf{ts.metrics.key, ts.standing(h.Gen)}]++
		v.behind[label] = max(v.behind[label], int64(h.Gen)-int64(ts.Acked.Gen))
	}
}

// observeStreams registers the metrics of the survey.
func (m *serverMetrics) observeStreams(meter metric.Meter, s *Server) error {
	var errs [6]error
	gauge := func(i int, name string, options ...metric.Int64ObservableGaugeOption) (g metric.Int64ObservableGauge) {
		g, errs[i] = meter.Int64ObservableGauge("xdsrelay.downstream."+name, options...)
		return g
	}
	clients := gauge(0, "clients", metric.WithDescription("Client connections with configuration streams. A stream whose connection is unknown counts as one connection."))
	stand := gauge(1, "client_states", metric.WithDescription("Client subscriptions to a type, by client status. stale: the newest content is not sent or not acknowledged. nacked: the client rejected the newest content. not_sent: there is nothing to send yet. unknown: the client holds content that the control plane has not confirmed."))
	behind := gauge(2, "generation_lag", metric.WithDescription("Generations that the client furthest behind has not acknowledged."))
	unacked := gauge(3, "awaiting_ack", metric.WithUnit("By"), metric.WithDescription("Bytes of responses that await an ACK or NACK."))
	former := gauge(5, "former_rules_streams", metric.WithDescription("Client streams with a key from former aggregation rules. key_changes: the rules in force give another key. no_key: they give none. unknown: they read something that the node did not keep. key_stays: they give the same key. unchecked: not compared yet."))
	v := &survey{srv: s}
	_, errs[4] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.lookLocked()
		o.ObserveInt64(clients, v.clients)
		o.ObserveInt64(unacked, v.unacked)
		of := s.CountFormer()
		for _, one := range []Former{FormerKeyChanges, FormerRefused, FormerUnknown, FormerKeyStays, FormerUnchecked} {
			o.ObserveInt64(former, int64(of[one]), metric.WithAttributeSet(attribute.NewSet(attribute.String("state", string(one)))))
		}
		m.types.Range(func(k, _ any) bool {
			key := k.(typeKey)
			if key.relay {
				return true
			}
			for one := standsSynced; one <= standsUnknown; one++ { // 0 is reported, too, so that a state ends
				o.ObserveInt64(stand, v.states[standingOf{key, one}], metric.WithAttributeSet(attribute.NewSet(
					attribute.String("type", key.label), variant(key.delta), attribute.String("state", strings.ToLower(string(states[one]))))))
			}
			o.ObserveInt64(behind, v.behind[key.label], metric.WithAttributeSet(attribute.NewSet(attribute.String("type", key.label))))
			return true
		})
		return nil
	}, clients, stand, behind, unacked, former)
	return errors.Join(errs[:]...)
}
