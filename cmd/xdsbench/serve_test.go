package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/iotest"

	"xdsrelay/relay/xdstest"
)

// TestServingUsage holds how mistakes of the servers' flags are told.
func TestServingUsage(t *testing.T) {
	for args, want := range map[string]string{
		"origin --keys 0":                     "xdsbench: keys: got 0, expected from 1 to 100000\n",
		"origin --cache none":                 "xdsbench: cache: got \"none\", expected snapshot or linear\n",
		"origin --every 1s --change two":      "xdsbench: change: got kind \"two\"",
		"origin --every 1s --change-type xds": "xdsbench: change type: got \"xds\", expected cds, eds, lds or rds\n",
		"origin --every 1s --change burst":    "xdsbench: change: got a burst of 0 resources",
		"origin --every 1ns":                  "xdsbench: schedule: got an interval of 1ns",
		"origin now":                          "xdsbench: unknown command \"now\"",
		"floor --delta --sotw":                "xdsbench: if any flags in the group [delta sotw] are set none of the others can be",
		"floor --resources 0":                 "xdsbench: clusters: got 0",
	} {
		if code, _, stderr := command(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d and %q, expected %d and %q", args, code, stderr, exitUsage, want)
		}
	}
	for args, want := range map[string]string{
		"origin --listen nowhere":        "xdsbench: listen: got address \"nowhere\"",
		"origin --open-files 1000000000": "xdsbench: limit of open files: the hard limit is",
	} {
		if code, _, stderr := command(t, strings.Fields(args)...); code != exitError || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d and %q, expected %d and %q", args, code, stderr, exitError, want)
		}
	}
}

// TestServing holds that the servers take orders as children, and otherwise end
// with their counts.
func TestServing(t *testing.T) {
	for _, server := range []string{"origin", "origin --cache snapshot", "floor", "floor --sotw --tcp --sync"} {
		var out, errs bytes.Buffer
		orders := `{"do":"change","args":{"kind":"one"}} {"do":"down"} {"do":"up"} {"do":"stats"}`
		args := append(strings.Fields(server), "--control", "--keys", "2", "--resources", "3")
		if code := run(t.Context(), args, strings.NewReader(orders), &out, &errs); code != exitOK || errs.Len() > 0 {
			t.Errorf("%s: exit code %d and %q", server, code, errs.String())
		}
		lines := strings.Split(out.String(), "\n")
		if len(lines) != 6 || !strings.HasPrefix(lines[0], `{"ready":{"addr":"127.0.0.1:`) ||
			!strings.HasPrefix(lines[1], `{"reply":{"revision":1,`) || !strings.Contains(lines[4], `"revision":1`) {
			t.Errorf("%s answers:\n%s", server, out.String())
		}

		ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
		out.Reset()
		args = append(strings.Fields(server), "--resources", "3", "--every", "1ms", "--changes", "5")
		// It goes on until it has told that all changes were made.
		code := run(ctx, args, iotest.ErrReader(nil), &out, &until{text: "revision 5, 0 streams", seen: cancel, Buffer: &errs})
		cancel()
		if code != exitOK || !strings.Contains(out.String(), `"revision": 5,`) || !strings.Contains(out.String(), `"scheduled": false`) {
			t.Errorf("%s: exit code %d and %q", server, code, out.String())
		}
		if text := errs.String(); !strings.HasPrefix(text, "xdsbench: listening at 127.0.0.1:") {
			t.Errorf("%s tells %q", server, text)
		}
	}
}

// until is a buffer for one writer at a time, which says when it holds a text.
type until struct {
	*bytes.Buffer
	text string
	seen func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if strings.Contains(u.String(), u.text) {
		u.seen()
	}
	return n, err
}
