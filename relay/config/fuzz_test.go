package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"xdsrelay/relay/yamlpos"
)

// FuzzFile holds that no file makes the decoder panic, that each mistake points
// into the file and can be shown, and that what decodes does so again.
func FuzzFile(f *testing.F) {
	f.Add([]byte(DefaultYAML()))
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg := Default()
		d := decodeFile("f", data, cfg)
		if !d.unread {
			d.check(cfg)
		}
		if err := d.err(); err != nil {
			var wrong *Error
			if !errors.As(err, &wrong) || len(wrong.Problems) == 0 {
				t.Fatalf("%T %v", err, err)
			}
			lines := len(yamlpos.Lines(data))
			for _, p := range wrong.Problems {
				if p.Line < 0 || p.Line > lines || (p.Line > 0 && p.Column < 1) || p.Message == "" {
					t.Errorf("problem %+v in %d lines", p, lines)
				}
				_ = p.String()
			}
			return
		}
		again, err := parseFile("f", data)
		if err != nil || !reflect.DeepEqual(cfg, again) {
			t.Errorf("decoded twice: %+v and %+v (%v)", cfg, again, err)
		}
	})
}
