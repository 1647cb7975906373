package demo

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"xdsrelay/relay/xdstest"
)

// TestEditsAreMoves: I4: the files that the demo writes for its relay to watch
// are only ever moved into their place, or removed; nobody can read half of one.
func TestEditsAreMoves(t *testing.T) {
	root := ownDirectory(t)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	folders, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range append(folders, root) {
		if strings.HasSuffix(folder, ".yaml") {
			continue
		}
		if err := watcher.Add(folder); err != nil {
			t.Fatal(err)
		}
	}
	e := newEditor(root)
	moved := map[string]bool{}
	// A file of our own is the last that happens: what comes before it is all.
	end := filepath.Join(root, "end.yaml")
	for range len(e.steps) {
		if _, _, err := e.next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := replaceFile(end, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(xdstest.Patience)
	for !moved[end] {
		select {
		case event := <-watcher.Events:
			if strings.HasPrefix(filepath.Base(event.Name), ".") {
				continue // the new file before it is in its place
			}
			switch {
			case event.Has(fsnotify.Write):
				t.Errorf("%s was written in its place", event.Name)
			case event.Has(fsnotify.Create):
				moved[event.Name] = true
			}
		case err := <-watcher.Errors:
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("the last file did not come; there were %v", moved)
		}
	}
	if len(moved) < 4 {
		t.Errorf("only %d files were replaced: %v", len(moved), moved)
	}
}
