package limit

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/events"
)

// TestMemoryEvents: memory that comes near its limit, clients that are shed because of that, and
// memory that is below the limit again are events.
func TestMemoryEvents(t *testing.T) {
	recorded := events.New(nil)
	l, err := New(Values{}, nil, slog.New(recorded.Handler(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	near := &measurement{tight: true}
	l.relieve(relief{tight: true, shed: true}, near, Relief{Shrink: func() {}, Shed: func() int { return 3 }})
	l.relieve(relief{}, &measurement{}, Relief{})
	var kinds []events.Kind
	for _, e := range recorded.After(nil, time.Time{})[0].Events {
		kinds = append(kinds, e.Kind)
	}
	if want := []events.Kind{events.NodeNearLimit, events.ClientsShed, events.NodeBelowLimit}; !slices.Equal(kinds, want) {
		t.Errorf("the events are %q, expected %q", kinds, want)
	}
}
