package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"xdsrelay/relay/redact"
)

// TestHandler: whatever way a text takes into a record, what is secret in it does
// not come out.
func TestHandler(t *testing.T) {
	at, err := url.Parse("https://u:S1@example.com/")
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		log := slog.New(redact.Handler(to(&out))).With("error", errors.New("token=S2")).WithGroup("in")
		log.Info("a password: S3", "url", at, "names", []string{"open1", "redis://a:S4@open2"}, slog.Group("g", "api_key", "S5", "n", 7), "none", nil, "type", "open3")
		log.Debug("open4")
		mustNot(t, out.String(), []string{"S1", "S2", "S3", "S4", "S5", "open4"}, []string{"open1", "open2", "open3", "in", "7", "example.com"})
		if lines := strings.Count(out.String(), "\n"); lines != 1 {
			t.Errorf("%s: %d lines", name, lines)
		}
	}
}
