package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
	"xdsrelay/relay/yamlpos"
)

// directory is the demo's own reading of the files that the relay serves: what
// clients must hold is worked out from here. It belongs to the loop.
type directory struct {
	root    string // absolute
	library *library
	files   map[string]*file // by path
	// revision grows with each change of any content.
	revision int
}

// file is a file as it was read last. Where it cannot be read any more, its last
// good content stands, as with the relay.
type file struct {
	key     string // of its sub-directory; "" at the top
	info    fs.FileInfo
	content map[ref]*facts
	err     error
}

// ErrDirectory is what is wrong with a directory that cannot be shown.
var ErrDirectory = errors.New("the directory cannot be served")

// openDirectory reads a directory; it must hold something, without mistakes.
func openDirectory(root string) (*directory, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(root); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	d := &directory{root: root, library: &library{}, files: make(map[string]*file)}
	d.read()
	if len(d.files) == 0 {
		return nil, fmt.Errorf("%w: %s has no files of resources (.yaml, .json, .txtpb or .pb)", ErrDirectory, root)
	}
	if err := d.problem(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	return d, nil
}

// keys are the aggregation keys that have a sub-directory; where there are less
// than two, one that has none is among them.
func (d *directory) keys() []string {
	found := make(map[string]struct{})
	for _, f := range d.files {
		if f.key != "" {
			found[f.key] = struct{}{}
		}
	}
	if len(found) < 2 {
		found["demo"] = struct{}{}
	}
	return slices.Sorted(maps.Keys(found))
}

// read brings files in step with the file system.
func (d *directory) read() {
	seen := make(map[string]bool)
	d.readLevel(d.root, "", seen)
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return // what was read last stands
	}
	for _, e := range entries {
		path := filepath.Join(d.root, e.Name())
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if key, err := url.PathUnescape(e.Name()); err == nil {
			d.readLevel(path, key, seen)
		}
	}
	for path := range d.files {
		if !seen[path] {
			delete(d.files, path)
			d.revision++
		}
	}
}

func (d *directory) readLevel(dir, key string, seen map[string]bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		for path, f := range d.files { // what was read last stands
			seen[path] = seen[path] || f.key == key
		}
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		parse := parserOf(path)
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || parse == nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		seen[path] = true
		f := d.files[path]
		if f != nil && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()) && os.SameFile(f.info, info) {
			continue
		}
		if f == nil {
			f = &file{key: key}
			d.files[path] = f
		}
		f.info = info
		if content, err := d.readFile(path, parse); err != nil {
			f.err = fmt.Errorf("%s: %w", path, err)
		} else {
			f.content, f.err = content, nil
		}
		d.revision++
	}
}

func (d *directory) readFile(path string, parse func([]byte, proto.Message) error) (map[ref]*facts, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var response discoveryv3.DiscoveryResponse
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("the file is empty")
	}
	if err := parse(b, &response); err != nil {
		return nil, err
	}
	content := make(map[ref]*facts)
	for _, body := range response.GetResources() {
		var wrapped discoveryv3.Resource
		if body.MessageIs(&wrapped) && body.UnmarshalTo(&wrapped) == nil {
			body = wrapped.GetResource()
		}
		switch t := body.GetTypeUrl(); t {
		case listenerType, routeType, clusterType, endpointType:
			content[ref{t, xdsclient.NameInBody(body)}] = d.library.look(t, body.GetValue())
		}
	}
	return content, nil
}

// content is all that a key is served.
func (d *directory) content(key string) map[ref]*facts {
	all := make(map[ref]*facts)
	for _, level := range []string{"", key} {
		for _, path := range slices.Backward(slices.Sorted(maps.Keys(d.files))) { // the first by path stands
			if f := d.files[path]; f.key == level {
				maps.Copy(all, f.content)
			}
		}
	}
	return all
}

// problem is what is wrong with the files now.
func (d *directory) problem() error {
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		errs = append(errs, d.files[path].err)
	}
	return errors.Join(errs...)
}

// newest returns the file, relative to the root, that holds r for a key, and
// when it was written.
func (d *directory) newest(key string, r ref) (path string, at time.Time) {
	for p, f := range d.files {
		if _, ok := f.content[r]; ok && (f.key == key || f.key == "" && path == "") {
			path, at = p, f.info.ModTime()
		}
	}
	if rel, err := filepath.Rel(d.root, path); err == nil && path != "" {
		path = rel
	}
	return path, at
}

// parserOf returns what reads a file by its extension, or nil.
func parserOf(path string) func([]byte, proto.Message) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return func(b []byte, m proto.Message) error {
			doc, err := yamlpos.ToJSON(b, yamlpos.Limits{Bytes: 64 << 20, Values: 4 << 20})
			if err != nil {
				return err
			}
			return protojson.Unmarshal(doc.Text, m)
		}
	case ".json":
		return protojson.Unmarshal
	case ".txtpb", ".textproto", ".pb_text":
		return prototext.Unmarshal
	case ".pb", ".bin":
		return proto.Unmarshal
	}
	return nil
}
