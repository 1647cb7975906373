package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"xdsrelay/relay/ops"
)

// evil is what a client may call itself: it clears a screen, writes over a line, sets a
// title, and does the first again by one byte of C1.
const evil = "x\x1b[2J\r\x1b]0;title\x07\u009b2J\x7f\U000e0041\nforged"

// isSafe tells whether a text does nothing to a terminal.
func isSafe(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// TestDataIsSafe: what clients choose reaches no terminal as a control sequence, in no
// form of output, and programs read it as it is.
func TestDataIsSafe(t *testing.T) {
	page := ops.Page{Clients: someClients(time.Unix(0, 0).UTC()), Silent: []ops.Silent{}}
	page.Clients[0].Name = evil
	for form, read := range map[string]func([]byte, any) error{asJSON: json.Unmarshal, asYAML: func(b []byte, into any) error { return yaml.UnmarshalWithOptions(b, into, yaml.UseJSONUnmarshaler()) }} {
		t.Run(form, func(t *testing.T) {
			var b bytes.Buffer
			if err := (&output{form: form}).data(&b, page); err != nil {
				t.Fatal(err)
			}
			var got ops.Page
			if err := read(b.Bytes(), &got); err != nil || !reflect.DeepEqual(got, page) {
				t.Errorf("it reads %v, %+v", err, got)
			}
			if !isSafe(b.String()) {
				t.Errorf("a terminal would do what a client wants: %q", &b)
			}
		})
		t.Run("dump "+form, func(t *testing.T) {
			var b bytes.Buffer
			out := &output{form: form}
			body, err := json.Marshal(map[string]string{"name": evil})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(dumpHead(&b, out, &ops.Dump{Key: evil, Node: "a", Resources: make([]ops.Dumped, 2)}),
				dumpOne(&b, out, ops.Dumped{Name: "good", Resource: json.RawMessage(`{}`)}, true), dumpOne(&b, out, ops.Dumped{Name: evil, Resource: body}, false)); err != nil {
				t.Fatal(err)
			}
			if form == asJSON {
				b.WriteString("\n]}\n")
			}
			var got struct {
				Key       string
				Resources []struct {
					Name     string
					Resource map[string]string
				}
			}
			if err := read(b.Bytes(), &got); err != nil || got.Key != evil || len(got.Resources) != 2 || got.Resources[1].Name != evil || got.Resources[1].Resource["name"] != evil {
				t.Errorf("it reads %v, %+v from\n%s", err, got, &b)
			}
			if !isSafe(b.String()) {
				t.Errorf("a terminal would do what a client wants: %q", &b)
			}
		})
	}
}

// TestOrderOfLevels: of several levels each has to be taken.
func TestOrderOfLevels(t *testing.T) {
	var asked []string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("part"))
		if r.URL.Query().Get("part") == "redis" {
			w.WriteHeader(http.StatusBadRequest) // an older node
			_, _ = w.Write([]byte("no part of the log is called so"))
		}
	}))
	defer node.Close()
	code, _, stderr := command(t, "log-level", "redis=debug", "upstream=info", "--admin", strings.TrimPrefix(node.URL, "http://"))
	if code != exitError || len(asked) != 1 || !strings.Contains(stderr, "no part of the log") {
		t.Errorf("exit code %d, asked about %q: %s", code, asked, stderr)
	}
}

// TestAnswersAreSafe: nor does what a node answers, or what an error of it quotes.
func TestAnswersAreSafe(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(evil))
	}))
	defer node.Close()
	admin := strings.TrimPrefix(node.URL, "http://")
	for _, args := range []string{"nodes", "nodes -o json", "keys a", "history a", "status"} {
		_, stdout, stderr := command(t, append(strings.Fields(args), "--admin", admin)...)
		if text := stdout + stderr; !isSafe(text) || text == "" {
			t.Errorf("%s: %q", args, text)
		}
	}
}
