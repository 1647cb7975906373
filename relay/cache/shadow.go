package cache

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"xdsrelay/relay/cache/confidence"
)

// compareLocked panics if the confidence of a stream differs from the fields that it will replace.
// It does nothing without the tag shadow. t.mu must be held, or read-locked.
func (t *Table) compareLocked(by int) {
	if !shadowing {
		return
	}
	stream := &t.streams[by]
	c := &stream.confidence
	want := confidence.State{}
	switch {
	case stream.stale:
		want.Basis = confidence.Restored
	case stream.idled:
		want.Basis = confidence.Idled
	case !stream.slept.IsZero():
		want.Basis = confidence.Slept
	case stream.doubted:
		want.Basis = confidence.Carried
	default:
		want.Basis = confidence.Confirmed
	}
	switch waits := !stream.unsettled.IsZero(); {
	case stream.held && waits:
		want.Wait = confidence.HeldAwaiting
	case stream.held:
		want.Wait = confidence.Held
	case waits:
		want.Wait = confidence.Awaiting
	}
	is := c.State
	switch is.Basis {
	case confidence.Unknown:
		is.Basis = confidence.Confirmed
	case confidence.Assumed:
		is.Basis = confidence.Carried
	default:
	}
	if is != want {
		differs(fmt.Sprintf("the confidence is %v, expected %v", c.State, want))
	}
	if !c.Since().Equal(stream.unsettled) || stream.stale && !c.RestoredAsOf().Equal(stream.restoredAsOf) {
		differs(fmt.Sprintf("%v since %v, restored as of %v, expected %v and %v", c.State, c.Since(), c.RestoredAsOf(), stream.unsettled, stream.restoredAsOf))
	}
	now := time.Now()
	if is, want := c.AsOf(now, t.evidenceLocked(by)), t.streamAsOfLocked(by, now); !is.Equal(want) {
		differs(fmt.Sprintf("%v as of %v, expected %v", c.State, is, want))
	}
}

// evidenceLocked is what proves how old the content of a stream is.
func (t *Table) evidenceLocked(by int) confidence.Evidence {
	up, lost := t.group.lostAt(by)
	return confidence.Evidence{Up: up, Lost: lost, Mirrored: t.streams[by].mirroredAsOf, Written: t.writtenLocked()}
}

// differs ends the process: the cleanup of a test would wait for the table's lock.
func differs(how string) {
	fmt.Fprintf(os.Stderr, "shadow: %s\n%s", how, debug.Stack())
	os.Exit(3)
}
