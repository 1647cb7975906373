package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Keep writes the result to a folder: as JSON, as a page, and in Markdown. The
// files are called after the scenario and the day; an older result of the same
// day is overwritten. It returns the path without an extension.
func (r *Result) Keep(dir string) (string, error) {
	data, err := r.JSON()
	if err != nil {
		return "", err
	}
	page, err := r.HTML()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("keep the result: %w", err)
	}
	base := filepath.Join(dir, r.Scenario+"-"+r.Machine.Date.Format(time.DateOnly))
	for ext, content := range map[string][]byte{".json": data, ".html": page, ".md": []byte(r.Markdown())} {
		if err := os.WriteFile(base+ext, content, 0o644); err != nil {
			return "", fmt.Errorf("keep the result: %w", err)
		}
	}
	return base, nil
}

// JSON is the result with all that was measured, in one line.
func (r *Result) JSON() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return append(b, '\n'), nil
}

// Read reads a result that was kept as JSON.
func Read(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("result %s: %w", path, err)
	}
	if r.Scenario == "" || len(r.Targets) == 0 {
		return nil, fmt.Errorf("result %s: it has no scenario or no targets", path)
	}
	return &r, nil
}

// ErrNone says that no result of a scenario was kept.
var ErrNone = errors.New("no result was kept")

// Last reads the newest result of a scenario in a folder.
func Last(dir, scenario string) (*Result, string, error) {
	names, err := fs.Glob(os.DirFS(dir), scenario+"-*.json")
	if err != nil {
		return nil, "", fmt.Errorf("results in %s: %w", dir, err)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		day := strings.TrimSuffix(strings.TrimPrefix(name, scenario+"-"), ".json")
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			continue // of a scenario whose name begins like this one
		}
		path := filepath.Join(dir, name)
		r, err := Read(path)
		return r, path, err
	}
	return nil, "", fmt.Errorf("%s: %w in %s", scenario, ErrNone, dir)
}
