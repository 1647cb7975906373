package upstream

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// An error names the file, the position if the format has one, and its kind, and quotes nothing of
// the file.
func TestDirectoryErrorPlaces(t *testing.T) {
	const head = "resources:\n- \"@type\": " + resource.ClusterURL + "\n"
	for _, tc := range []struct {
		name, file, content string
		want                []string
	}{
		{"YAML syntax", "f.yaml", "resources:\n- a: b: c\n", []string{"f.yaml:2:", "DiscoveryResponse in YAML"}},
		{"YAML unknown field", "f.yaml", head + "  name: a\n  colour: red\n", []string{"f.yaml:4:3:", "unknown field"}},
		{"YAML wrong type", "f.yaml", head + "  name: a\n  connect_timeout: soon\n", []string{"f.yaml:4:20:", "duration"}},
		{"YAML enum", "f.yml", head + "  name: a\n\n  # why\n  type: EDSS\n", []string{"f.yml:6:9:", "field type", "enum"}},
		{"YAML behind an alias", "f.yaml", "x: &a {port_value: x}\n", []string{"f.yaml:1:1:", "unknown field"}},
		{"YAML key twice", "f.yaml", "resources: []\nresources: []\n", []string{"f.yaml:2:1:", "set twice"}},
		{"YAML second document", "f.yaml", "resources: []\n---\nresources: []\n", []string{"f.yaml:3:1:", "second YAML document"}},
		{"YAML unknown alias", "f.yaml", "resources: *nothing\n", []string{"f.yaml:1:", "alias"}},
		{"YAML list", "f.yaml", "- a\n", []string{"f.yaml:1:1:"}},
		{"YAML only comments", "f.yaml", "# nothing\n", []string{"f.yaml", "no document"}},
		{"JSON syntax", "f.json", "{\n  \"resources\": [,]\n}", []string{"f.json:2:17:", "DiscoveryResponse in JSON"}},
		{"JSON unknown field", "f.json", "{\n \"resource\": []}", []string{"f.json:2:2:", "unknown field"}},
		{"JSON unknown type", "f.json", `{"resources":[{"@type":"type.googleapis.com/x.Y"}]}`, []string{"f.json:1:", "binary file"}},
		{"text syntax", "f.txtpb", "type_url: 'x'\nresources {\n", []string{"f.txtpb:"}},
		{"text unknown field", "f.pb_text", "type_url: 'x'\n colour: 1\n", []string{"f.pb_text:2:2:", "unknown field"}},
		{"binary", "f.pb", "\xff\xff", []string{"f.pb", "DiscoveryResponse in binary"}},
		{"empty", "f.yaml", "\n", []string{"f.yaml", "empty"}},
		{"empty binary", "f.bin", "", []string{"f.bin", "empty"}},
		{"no type", "f.yaml", "resources: []\n", []string{"f.yaml", "type_url is missing"}},
		{"other type", "f.yaml", "type_url: x\n" + head + "  name: a\n", []string{"f.yaml", "resource 1", "type_url"}},
		{"no name", "f.yaml", head, []string{"f.yaml", "no name"}},
		{"nested too deep", "f.yaml", strings.Repeat("[", 600), []string{"f.yaml:1:", "deep"}},
		{"nested entries", "f.yaml", strings.Repeat("- ", 600) + "a", []string{"f.yaml:1:", "deep"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := formatOf(tc.file).parse(tc.file, []byte(tc.content))
			mention(t, err, tc.want...)
			for _, content := range []string{"colour", "soon", "EDSS", "nothing", "x.Y", `"x"`} {
				if err != nil && strings.Contains(err.Error(), content) {
					t.Errorf("the error %q quotes the file", err)
				}
			}
			if err != nil && strings.ContainsAny(err.Error(), "\u00a0\n") {
				t.Errorf("the error %q holds what does not belong into a log line", err)
			}
		})
	}
}

func TestTypesIn(t *testing.T) {
	for content, want := range map[string]string{
		"type_url: " + resource.ClusterURL + "\n\"@type\": " + resource.ListenerURL: resource.ClusterURL,
		`{"typeUrl": "` + resource.RouteURL + `"`:                                   resource.RouteURL,
		`@type: ` + resource.SecretURL + ` type.googleapis.com/a.B`:                 resource.SecretURL,
		"nothing": "",
	} {
		if got := strings.Join(typesIn([]byte(content)), " "); got != want {
			t.Errorf("%q: types %q, expected %q", content, got, want)
		}
	}
}

// Whatever a file contains, it is either content that can be sent or an error that names the file,
// and reading it again has the same result.
func FuzzDirectoryFile(f *testing.F) {
	set := answer("v", xdstest.Cluster("a", time.Second), xdstest.Cluster("b", time.Second))
	exts := []string{".pb", ".json", ".yaml", ".txtpb"}
	for i, ext := range exts {
		f.Add(uint8(i), encode(f, ext, set))
	}
	f.Add(uint8(2), []byte("a: &a {<<: *a}\nb: !!str\n? [x]\n: - y\n"))
	f.Add(uint8(2), []byte("--- !t &a\n%YAML 1.2\n...\n"))
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		path := "/dir/file" + exts[int(kind)%len(exts)]
		c, err := formatOf(path).parse(path, b)
		again, errAgain := formatOf(path).parse(path, b)
		if (err == nil) != (errAgain == nil) {
			t.Fatalf("read twice: %v, then %v", err, errAgain)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), path) {
				t.Fatalf("the error %q does not name the file", err)
			}
			return
		}
		for i, r := range c.resources {
			if r.Name == "" || r.Version == "" || r.Version != again.resources[i].Version {
				t.Fatalf("resource %q at version %q, then %q", r.Name, r.Version, again.resources[i].Version)
			}
			if r.Body != nil && proto.Unmarshal(r.Body, xdstest.Any(set)) != nil {
				t.Fatalf("the body of %q is no Any", r.Name)
			}
		}
	})
}

// I1: a file sends no heartbeats, so a TTL in it expires nothing, and a heartbeat is not a
// resource.
func TestDirectoryTTLs(t *testing.T) {
	root := t.TempDir()
	m := answer("v1", xdstest.Endpoints("b", "10.0.0.1:80"))
	for _, r := range []*discoveryv3.Resource{
		{Name: "a", Ttl: durationpb.New(time.Minute), Resource: xdstest.Any(xdstest.Endpoints("a", "10.0.0.1:80"))},
		{Name: "c", Ttl: durationpb.New(time.Minute)},
	} {
		m.Resources = append(m.Resources, xdstest.Any(r))
	}
	put(t, filepath.Join(root, "eds.pb"), encode(t, ".pb", m))
	v := serveDir(t, root).view("k", resource.EndpointURL, "a", "b", "c")
	v.shows("a", "b")
	if v.changes().Lifetimes != nil || !v.table.State(v.watch).Expires.IsZero() {
		t.Error("what is in a file has an end")
	}
}
