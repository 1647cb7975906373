package demo

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

//go:embed directory
var examples embed.FS

// copyExamples copies the example directory to a temporary one.
func copyExamples() (root string, err error) {
	if root, err = os.MkdirTemp("", "xdsrelay-demo-"); err != nil {
		return "", err
	}
	tree, err := fs.Sub(examples, "directory")
	if err == nil {
		err = os.CopyFS(root, tree)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(root))
	}
	return root, nil
}

// editor changes the example files, one value after the other. It edits the
// text, so that what the user has changed by hand stays.
type editor struct {
	root  string
	turn  int
	steps []step
}

// step is one edit.
type step struct {
	file string // relative to the root
	// value finds a number in the file: the second group, with the first before
	// it. The edit adds one to it.
	value *regexp.Regexp
	// write is what the file becomes instead, and remove that it goes.
	write  string
	remove bool
	// soon says that the next step follows at once, as when somebody saves
	// again and again: a slow client gets them as one.
	soon bool
}

func number(before string) *regexp.Regexp { return regexp.MustCompile(`(?s)(` + before + `)(\d+)`) }

func newEditor(root string) *editor {
	port := func(cluster string) *regexp.Regexp {
		return number(`cluster_name: ` + cluster + `\b.*?port_value: `)
	}
	// The edge assets four times in a row.
	assets := step{file: "edge/eds.yaml", value: port("assets"), soon: true}
	return &editor{root: root, steps: []step{
		{file: "eds.yaml", value: port("website")},
		{file: "api/eds.yaml", value: port("users")},
		assets, assets, assets,
		{file: "edge/eds.yaml", value: port("assets")},
		{file: "rds.yaml", value: number(`name: front-routes\b.*?timeout: `)},
		{file: "shop/cds.yaml", value: number(`name: cart\b.*?connect_timeout: 0\.`)},
		{file: "shop/preview-eds.yaml", write: previewEndpoints, soon: true},
		{file: "shop/preview-cds.yaml", write: previewCluster},
		{file: "lds.yaml", value: number(`stat_prefix: front-`)},
		{file: "eds.yaml", value: port("greeter")},
		{file: "shop/preview-cds.yaml", remove: true, soon: true},
		{file: "shop/preview-eds.yaml", remove: true},
		{file: "api/cds.yaml", value: number(`name: billing\b.*?connect_timeout: 0\.`)},
	}}
}

const previewCluster = `# A cluster that is added and removed.
type_url: type.googleapis.com/envoy.config.cluster.v3.Cluster
resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: preview
  type: EDS
  eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
  connect_timeout: 0.500s
`

const previewEndpoints = `# Endpoints that are added and removed.
type_url: type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
resources:
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: preview
  endpoints:
  - locality: {region: local, zone: a}
    load_balancing_weight: 1
    lb_endpoints:
    - endpoint: {address: {socket_address: {address: 10.2.0.1, port_value: 8001}}}
`

// next does the next edit. It returns how long to wait for the one after, and
// when the file had its new content.
func (e *editor) next() (pause func(every time.Duration) time.Duration, at time.Time, err error) {
	s := e.steps[e.turn%len(e.steps)]
	e.turn++
	pause = func(every time.Duration) time.Duration {
		if s.soon {
			return min(every, 300*time.Millisecond)
		}
		return every
	}
	path := filepath.Join(e.root, s.file)
	switch {
	case s.remove:
		at = time.Now()
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil // the user was faster
		}
	case s.write != "":
		at, err = replaceFile(path, []byte(s.write))
	default:
		var b []byte
		if b, err = os.ReadFile(path); err == nil {
			at, err = replaceFile(path, s.edit(b))
		}
	}
	if err != nil {
		err = fmt.Errorf("edit: %w", err)
	}
	return pause, at, err
}

// edit adds one to the value, or changes nothing where it is not found: the
// user may have rewritten the file.
func (s step) edit(b []byte) []byte {
	m := s.value.FindSubmatchIndex(b)
	if m == nil {
		return b
	}
	old := b[m[4]:m[5]]
	n, err := strconv.Atoi(string(old))
	if err != nil {
		return b
	}
	var out bytes.Buffer
	out.Write(b[:m[4]])
	fmt.Fprintf(&out, "%0*d", len(old), n+1)
	out.Write(b[m[5]:])
	return out.Bytes()
}

// replaceFile puts a new file in the place of an old one, so that nobody ever
// reads half of it.
func replaceFile(path string, b []byte) (at time.Time, err error) {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temporary, b, 0o644); err != nil {
		return at, err
	}
	at = time.Now()
	return at, os.Rename(temporary, path)
}
