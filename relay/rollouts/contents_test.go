package rollouts

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestUndoWithoutContents: a node that does not have the contents of the revision before refuses to undo the
// newest one, and says why. If that fails its final bake, the log does.
func TestUndoWithoutContents(t *testing.T) {
	bubble(t, func(s *stage) {
		var log bytes.Buffer
		s.control.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.sends("shop", "a=3")
		sleep(2 * time.Minute)
		s.is("shop", "Proving Bake")
		s.control.mu.Lock()
		s.control.keyNamed("shop").former = nil // as of a node that has taken over the key
		s.control.mu.Unlock()
		s.order(Undo, ErrNoContents)
		s.is("shop", "Proving Bake")
		for _, c := range s.fleet.clients {
			s.fleet.disconnect(c, true)
		}
		sleep(time.Minute)
		s.shows("shop", "3")
		s.control.mu.Lock()
		defer s.control.mu.Unlock()
		if !strings.Contains(log.String(), "clients keep it") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
