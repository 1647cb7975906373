package logs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/logs"
)

// lines is what was written.
func lines(b *bytes.Buffer) []string {
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// TestLevels: a part has the level of all, or its own, and both change while loggers
// of the part are in use.
func TestLevels(t *testing.T) {
	var b bytes.Buffer
	levels := logs.NewLevels(slog.LevelInfo)
	log := logs.New(&b, logs.Config{Levels: levels})
	origin := logs.Part(log, logs.Origin).With("address", "a:1").WithGroup("g")
	log.Debug("no 1")
	origin.Debug("no 2")
	if err := levels.SetPart(logs.Origin, slog.LevelDebug); err != nil {
		t.Fatal(err)
	}
	log.Debug("no 3")
	origin.Debug("yes 1", "k", 1)
	if err := levels.SetPart("", slog.LevelError); err != nil {
		t.Fatal(err)
	}
	log.Warn("no 4")
	logs.Part(log, "something new").Warn("no 5")
	origin.Debug("yes 2")
	levels.Set(slog.LevelWarn, map[string]slog.Level{logs.Clients: slog.LevelDebug})
	origin.Info("no 6")
	logs.Part(log, logs.Clients).Debug("yes 3")
	got := lines(&b)
	if len(got) != 3 || strings.Contains(b.String(), "no ") {
		t.Errorf("logged %q", got)
	}
	if !strings.Contains(got[0], `part=origin address=a:1 g.k=1`) {
		t.Errorf("the line is %s", got[0])
	}
	if l := levels.Get(); l[logs.Clients] != slog.LevelDebug || l[""] != slog.LevelWarn || l[logs.Tier] != slog.LevelWarn || len(l) != len(logs.Parts())+1 {
		t.Errorf("the levels are %v", l)
	}
	if err := levels.SetPart("orgn", slog.LevelDebug); err == nil || !strings.Contains(err.Error(), "origin") {
		t.Errorf("a part that does not exist: %v", err)
	}
}

// TestRepeats: of lines that say the same a few are written each minute, and the first
// of the next minute tells how many were not.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := logs.New(&b, logs.Config{JSON: true, Levels: logs.NewLevels(slog.LevelDebug), Repeats: 3})
		one, other := logs.Part(log, logs.Clients), logs.Part(log, logs.Origin)
		for i := range 10 {
			one.Warn("refused", "client", i)
			log.Debug("what is for debugging is all written", "i", i)
		}
		other.Warn("refused")
		one.Error("refused")
		if n := len(lines(&b)); n != 3+10+2 {
			t.Errorf("%d lines: %s", n, &b)
		}
		b.Reset()
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		for i := range 5 {
			one.Warn("refused", "client", i)
		}
		got := lines(&b)
		if len(got) != 3 {
			t.Fatalf("%d lines: %s", len(got), &b)
		}
		for i, want := range []any{float64(7), nil, nil} {
			var line map[string]any
			if err := json.Unmarshal([]byte(got[i]), &line); err != nil {
				t.Fatal(err)
			}
			if line["left_out"] != want || line["part"] != logs.Clients || line["client"] != float64(i) {
				t.Errorf("line %d is %v, want left_out=%v", i, line, want)
			}
		}
	})
}

// TestRepeatsAreBounded: messages that are all different do not stay.
func TestRepeatsAreBounded(t *testing.T) {
	var b bytes.Buffer
	log := logs.New(&b, logs.Config{Levels: logs.NewLevels(slog.LevelInfo), Repeats: 1})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for i := range 1000 {
				log.Info(strings.Repeat("x", i+1)) //nolint:sloglint // each is another kind
			}
		})
	}
	writers.Wait()
	if n := len(lines(&b)); n != 1000 {
		t.Errorf("%d lines, want each once", n)
	}
}
