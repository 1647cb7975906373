package logs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
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
	if !strings.Contains(got[0], `part=upstream address=a:1 g.k=1`) {
		t.Errorf("the line is %s", got[0])
	}
	if l := levels.Get(); l[logs.Clients] != slog.LevelDebug || l[""] != slog.LevelWarn || l[logs.Tier] != slog.LevelWarn || len(l) != len(logs.Parts())+1 {
		t.Errorf("the levels are %v", l)
	}
	if err := levels.SetPart("upstram", slog.LevelDebug); err == nil || !strings.Contains(err.Error(), "upstream") {
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

// TestDurations: a duration has a unit, in JSON, too, and in groups.
func TestDurations(t *testing.T) {
	var b bytes.Buffer
	log := logs.New(&b, logs.Config{JSON: true, Levels: logs.NewLevels(slog.LevelInfo)})
	log.With("pause", 20*time.Second).WithGroup("g").Info("the origin is away", "down_for", 1500*time.Millisecond, "bytes", 7)
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	group, _ := line["g"].(map[string]any)
	if line["pause"] != "20s" || group["down_for"] != "1.5s" || group["bytes"] != float64(7) {
		t.Errorf("the line is %s", &b)
	}
}

// TestGRPC: lines of grpc-go have a level, a part, and a component, and are no longer than
// they may be, nor more than others of one kind.
func TestGRPC(t *testing.T) {
	var b bytes.Buffer
	levels := logs.NewLevels(slog.LevelInfo)
	log := logs.ForGRPC(logs.New(&b, logs.Config{JSON: true, Levels: levels, Repeats: 3}))
	log.Infoln("[core]", "no 1")
	if log.V(0) {
		t.Error("what is verbose is logged")
	}
	log.Warningln("[core] [Channel #1]", "addrConn.createTransport failed")
	log.Error("[transport]", "GOAWAY, debug data ", strings.Repeat("x", 100_000))
	log.Errorf("%d of %d", 1, 2)
	for range 10 {
		log.Error("[transport]", "GOAWAY")
	}
	if err := levels.SetPart(logs.GRPC, slog.LevelDebug); err != nil {
		t.Fatal(err)
	}
	log.Infoln("[core]", "yes")
	if !log.V(0) || log.V(2) {
		t.Error("at DEBUG what is verbose is logged, but not all of it")
	}
	type line struct{ Level, Msg, Part, Component, Text string }
	var got []line
	for _, text := range lines(&b) {
		var one line
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatal(err)
		}
		if len(one.Text) > 2000 {
			t.Errorf("a line of %d bytes", len(one.Text))
		}
		one.Text = one.Text[:min(len(one.Text), 20)]
		got = append(got, one)
	}
	want := []line{
		{"INFO", "gRPC warns", "grpc", "core", "[Channel #1] addrCon"}, {"WARN", "gRPC failed", "grpc", "transport", "GOAWAY, debug data x"},
		{"WARN", "gRPC failed", "grpc", "", "1 of 2"}, {"WARN", "gRPC failed", "grpc", "transport", "GOAWAY"}, {"DEBUG", "gRPC reports", "grpc", "core", "yes"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged %+v, expected %+v", got, want)
	}
}
