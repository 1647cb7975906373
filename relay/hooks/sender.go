package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"xdsrelay/relay/pause"
)

const (
	// lanes is how many events are sent at a time. Those about a key have one lane, which keeps their order.
	lanes = 8
	// maxQueued bounds the events that wait in a lane, and maxEvent the data of one, in bytes.
	maxQueued = 512
	maxEvent  = 32 << 10
	// defaultLastSends bounds how long a node that ends sends what is still queued.
	defaultLastSends = time.Second
	// firstRetry and lastRetry are pauses between two attempts.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

func retryPauses() backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{InitialInterval: firstRetry, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: lastRetry}
}

// Event is what a webhook is sent: a CloudEvent of version 1.0 in the structured mode.
// See https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
type Event struct {
	// ID is the same for each attempt. With Source it identifies the event.
	ID     string
	Source string
	Type   string
	// Subject is the aggregation key. Events about the same one are sent in order.
	Subject string
	Time    time.Time
	// Data is sent as JSON.
	Data any
}

type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

const eventContentType = "application/cloudevents+json"

// body is what is sent of an event.
func (e *Event) body() ([]byte, error) {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return nil, err
	}
	if len(data) > maxEvent {
		return nil, fmt.Errorf("the data of the event has %d bytes, expected at most %d", len(data), maxEvent)
	}
	return json.Marshal(cloudEvent{"1.0", e.ID, e.Source, e.Type, e.Subject, e.Time.UTC(), "application/json", data})
}

// Target is the webhook that gets events.
type Target struct {
	Client         *Client
	URL, TokenFile string
	Timeout        time.Duration // of an attempt
}

// Sender sends events to a webhook: each at least once while the process runs, unless the queue is full or the
// webhook rejects it. All methods are safe for concurrent use, and none blocks but [Sender.Run].
type Sender struct {
	// Fixed after construction.
	target func() *Target
	log    *slog.Logger
	seed   maphash.Seed
	lanes  [lanes]lane
	// lastSends bounds how long what is queued is sent after the context has ended.
	lastSends time.Duration

	mu sync.Mutex
	// Guarded by mu.
	queued  [lanes][]*Event // the oldest first, and without the one that is being sent
	counts  Sent
	failing int  // lanes of which the last attempt has failed
	lossy   bool // the log has that events were dropped, since the queue was empty
}

// lane is one of those in which events are sent, one after another.
type lane struct {
	wake chan struct{} // capacity 1: there is an event
}

// Sent is what has become of events.
type Sent struct {
	// Delivered were accepted by the webhook, Rejected were not and are not sent again, and Dropped had no
	// place in the queue. Retries are attempts that failed, after which the event is sent again.
	Delivered, Rejected, Dropped, Retries uint64
	// Queued have not been accepted yet.
	Queued int
}

// NewSender returns a sender. target returns where events are sent now; nil for nowhere. It is called from
// several goroutines.
func NewSender(target func() *Target, log *slog.Logger) *Sender {
	s := &Sender{target: target, log: log, seed: maphash.MakeSeed(), lastSends: defaultLastSends}
	for i := range s.lanes {
		s.lanes[i].wake = make(chan struct{}, 1)
	}
	return s
}

// Send queues an event. If the queue of its lane is full, the oldest event there is dropped.
func (s *Sender) Send(e *Event) {
	if s.target() == nil {
		return
	}
	i := maphash.String(s.seed, e.Subject) % lanes
	s.mu.Lock()
	isFirst := false
	if len(s.queued[i]) >= maxQueued {
		s.queued[i] = s.queued[i][1:]
		s.counts.Dropped++
		isFirst, s.lossy = !s.lossy, true
	}
	s.queued[i] = append(s.queued[i], e)
	s.mu.Unlock()
	if isFirst {
		s.log.Error("events of rollouts are dropped: the queue is full, since the webhook of rollout.events accepts fewer than there are")
	}
	select {
	case s.lanes[i].wake <- struct{}{}:
	default: // it is awake
	}
}

// Sent returns what has become of events.
func (s *Sender) Sent() Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.counts
	for _, q := range s.queued {
		is.Queued += len(q)
	}
	return is
}

// Run sends events until ctx ends, and then for a short time what is queued.
func (s *Sender) Run(ctx context.Context) {
	var work sync.WaitGroup
	for i := range s.lanes {
		work.Go(func() { s.run(ctx, i) })
	}
	work.Wait()
}

func (s *Sender) run(ctx context.Context, i int) {
	for {
		e := s.next(i)
		switch {
		case e == nil && ctx.Err() != nil:
			return
		case e == nil:
			select {
			case <-ctx.Done():
			case <-s.lanes[i].wake:
			}
		case !s.deliver(ctx, e):
			s.finish(ctx, i, e)
			return
		}
	}
}

// next takes the next event of a lane; nil if there is none.
func (s *Sender) next(i int) *Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queued[i]) == 0 {
		s.queued[i] = nil
		if s.failing == 0 && !slices.ContainsFunc(s.queued[:], func(q []*Event) bool { return len(q) > 0 }) {
			s.lossy = false
		}
		return nil
	}
	e := s.queued[i][0]
	s.queued[i] = s.queued[i][1:]
	return e
}

// finish sends an event and those behind it once more, after the context has ended.
func (s *Sender) finish(ctx context.Context, i int, e *Event) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), s.lastSends)
	defer end()
	for ; e != nil; e = s.next(i) {
		if is, _ := s.attempt(ctx, e); is == failed {
			s.mu.Lock()
			s.counts.Dropped += uint64(1 + len(s.queued[i]))
			s.queued[i] = nil
			s.mu.Unlock()
			return
		}
	}
}

// deliver sends an event until the webhook accepts or rejects it. It returns false if ctx has ended before.
func (s *Sender) deliver(ctx context.Context, e *Event) bool {
	pauses := retryPauses()
	for n := 0; ctx.Err() == nil; n++ {
		is, err := s.attempt(ctx, e)
		switch {
		case is != failed && n > 0:
			s.recovers(is)
			return true
		case is != failed:
			return true
		case ctx.Err() != nil:
			return false
		}
		s.fails(err, n == 0)
		pause.For(ctx, pauses.NextBackOff())
	}
	return false
}

// result is what has become of an attempt.
type result uint8

const (
	delivered result = iota
	rejected
	failed  // the event has to be sent again
	removed // the configuration has no webhook any more
)

// attempt sends an event once. The error is why it failed.
func (s *Sender) attempt(ctx context.Context, e *Event) (result, error) {
	to := s.target()
	if to == nil {
		return removed, nil
	}
	body, err := e.body()
	if err != nil {
		s.rejects(e, err)
		return rejected, nil
	}
	ctx, end := context.WithTimeoutCause(ctx, to.Timeout, fmt.Errorf("no answer within %v", to.Timeout))
	defer end()
	status, _, err := to.Client.post(ctx, &request{to.URL, eventContentType, to.TokenFile, body})
	switch {
	case status >= 200 && status < 300: // whatever its body
		s.mu.Lock()
		s.counts.Delivered++
		s.mu.Unlock()
		return delivered, nil
	case err != nil:
		return failed, errors.New(shown(ctx, err))
	case isFinal(status):
		s.rejects(e, refusal(status))
		return rejected, nil
	}
	return failed, refusal(status)
}

// isFinal reports whether an answer is about the event rather than about the sender or the webhook.
func isFinal(status int) bool {
	switch status {
	case 400, 413, 415, 422:
		return true
	}
	return false
}

// rejects counts an event that no further attempt would deliver.
func (s *Sender) rejects(e *Event, err error) {
	s.log.Warn("the webhook of rollout.events rejected an event: it is not sent again", "id", e.ID, "type", e.Type, "key", e.Subject, "error", err)
	s.mu.Lock()
	s.counts.Rejected++
	s.mu.Unlock()
}

// fails counts an attempt that failed, and logs the first one of an outage. first says that it is the first
// of its event.
func (s *Sender) fails(err error, first bool) {
	s.mu.Lock()
	s.counts.Retries++
	if first {
		s.failing++
	}
	isNew := first && s.failing == 1
	s.mu.Unlock()
	if isNew {
		s.log.Warn("the webhook of rollout.events does not accept events: the relay queues them, and retries with backoff", "error", err)
	}
}

// recovers is called when an event that failed is sent no more.
func (s *Sender) recovers(is result) {
	s.mu.Lock()
	s.failing--
	isOver, dropped := s.failing == 0 && is != removed, s.counts.Dropped
	s.mu.Unlock()
	if isOver {
		s.log.Info("the webhook of rollout.events answers again", "dropped_since_start", dropped)
	}
}
