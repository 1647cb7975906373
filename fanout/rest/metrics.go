package rest

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/resource"
)

// metrics count by type and status, never by node, key or name.
type metrics struct {
	polls      metric.Int64Counter
	rejections *rejection.Counter
	bytes      metric.Int64Counter
	waiting    metric.Int64UpDownCounter
}

func newMetrics(m metric.Meter) (*metrics, error) {
	var errs [4]error
	var ms metrics
	ms.polls, errs[0] = m.Int64Counter("xdsrelay.rest.polls", metric.WithDescription("Polls, by type and HTTP status; 499 means that the client disconnected."))
	ms.bytes, errs[1] = m.Int64Counter("xdsrelay.rest.sent", metric.WithUnit("By"), metric.WithDescription("Bytes of responses to polls."))
	ms.waiting, errs[2] = m.Int64UpDownCounter("xdsrelay.rest.waiting_polls", metric.WithDescription("Polls that wait for a change."))
	ms.rejections, errs[3] = rejection.New(m)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &ms, nil
}

// answered counts an answer; t is nil if the path has no type.
func (m *metrics) answered(t *resource.Type, a *answer) {
	name := "none"
	if t != nil {
		name = resource.TypeLabel(t.URL)
	}
	set := metric.WithAttributeSet(attribute.NewSet(attribute.String("type", name), attribute.String("status", strconv.Itoa(a.status))))
	m.polls.Add(context.Background(), 1, set)
	m.bytes.Add(context.Background(), int64(len(a.body)), set)
	if a.rejection != "" {
		m.rejections.Add(rejection.Poll, a.rejection)
	}
}

func (m *metrics) held(by int64) { m.waiting.Add(context.Background(), by) }
