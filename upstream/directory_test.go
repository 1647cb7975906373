package upstream

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// I1: the same set in each of the formats results in the same resources. K11: with the same
// versions, whatever the format and the node.
func TestDirectorySameSetInEveryFormat(t *testing.T) {
	set := answer("", xdstest.Listener("front", "0.0.0.0:80", "routes"), xdstest.APIListener("svc", "routes"))
	var first map[string]string
	for _, ext := range []string{".pb", ".bin", ".json", ".yaml", ".yml", ".txtpb", ".textproto", ".pb_text", ".YAML"} {
		root := t.TempDir()
		put(t, filepath.Join(root, "lds"+ext), encode(t, strings.ToLower(ext), set))
		v := serveDir(t, root).view("k", resource.ListenerURL)
		v.shows("front", "svc")
		if first == nil {
			first = v.versions()
		}
		if got := v.versions(); !maps.Equal(got, first) {
			t.Errorf("%s: versions %v, expected %v as in the other formats", ext, got, first)
		}
		v.showsBody("front", xdstest.Listener("front", "0.0.0.0:80", "routes"))
	}
}

// I1: a collection is one Resource instead of the response, in each of the formats.
func TestDirectoryCollection(t *testing.T) {
	const name = "xdstp://authority/envoy.config.listener.v3.ListenerCollection/edge"
	body := xdstest.Any(&listenerv3.ListenerCollection{Entries: []*xdscorev3.CollectionEntry{{
		ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
			Name: "front", Resource: xdstest.Any(xdstest.Listener("front", "0.0.0.0:80", "routes")),
		}},
	}}})
	var first map[string]string
	for _, ext := range []string{".pb", ".json", ".yaml", ".txtpb"} {
		root := t.TempDir()
		put(t, filepath.Join(root, "edge"+ext), encode(t, ext, &discoveryv3.Resource{Name: name, Version: "ignored", Resource: body}))
		v := serveDir(t, root).view("k", body.TypeUrl, name)
		v.shows(name)
		if first == nil {
			first = v.versions()
		}
		if got := v.versions(); !maps.Equal(got, first) {
			t.Errorf("%s: versions %v, expected %v as in the other formats", ext, got, first)
		}
	}
	root := t.TempDir()
	put(t, filepath.Join(root, "nameless.json"), encode(t, ".json", &discoveryv3.Resource{Resource: body}))
	if err := CheckDirectory(root); err == nil {
		t.Error("a Resource without a name was taken")
	}
}

// D7: clients that see just one file get the version of that file. If the file has no version, or
// is not complete, the version is made from the content.
func TestDirectoryVersion(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "cds.json"), encode(t, ".json", answer("v7", xdstest.Cluster("a", time.Second))))
	b := serveDir(t, root)
	v := b.view("k", resource.ClusterURL)
	v.shows("a")
	if got := v.changes().Version; got != "v7" {
		t.Errorf("version %q, expected the file's own", got)
	}
	put(t, filepath.Join(root, "more.json"), encode(t, ".json", answer("v7", xdstest.Cluster("b", time.Second))))
	v.shows("a", "b")
	if got := v.changes().Version; got == "v7" || got == "" {
		t.Errorf("version %q of two files, expected a digest", got)
	}
}

// B24: a type without a file has an empty answer. B34: a name without a resource is reported absent
// at once, and is sent when it exists.
func TestDirectoryAnswersWhatIsNotThere(t *testing.T) {
	root := t.TempDir()
	putResponse(t, filepath.Join(root, "eds.yaml"), xdstest.Endpoints("a", "10.0.0.1:80"))
	b := serveDir(t, root)
	b.view("k", resource.ClusterURL).shows()
	v := b.view("k", resource.EndpointURL, "a", "z")
	v.shows("a")
	if got := v.changes().Removed; fmt.Sprint(got) != "[z]" {
		t.Errorf("removed %q, expected z", got)
	}
	late := b.view("k", resource.EndpointURL, "y") // subscribed when the rest of the type is known
	late.shows()
	if got := late.changes().Removed; fmt.Sprint(got) != "[y]" {
		t.Errorf("removed %q, expected y", got)
	}
	putResponse(t, filepath.Join(root, "more.yaml"), xdstest.Endpoints("z", "10.0.0.1:80"), xdstest.Endpoints("y", "10.0.0.1:80"))
	v.shows("a", "z")
	late.shows("y")
}

// Types are applied only if a client subscribes to them; each is answered on subscription, whatever
// else happens.
func TestDirectoryDemandComesAndGoes(t *testing.T) {
	root := t.TempDir()
	putResponse(t, filepath.Join(root, "cds.json"), xdstest.Cluster("a", time.Second))
	putResponse(t, filepath.Join(root, "eds.json"), xdstest.Endpoints("a", "10.0.0.1:80"), xdstest.Endpoints("b", "10.0.0.1:80"))
	b := serveDir(t, root)
	b.view("k", resource.ClusterURL).shows("a")
	v := b.view("k", resource.EndpointURL, "a")
	v.shows("a")
	v.table.Replace(v.watch, false, []string{"a", "b"})
	v.shows("a", "b")
	v.table.Replace(v.watch, true, nil)
	v.shows("a", "b")
	v.table.Replace(v.watch, false, []string{"b"})
	v.shows("b")
}

// The resources of a removed file are removed.
func TestDirectoryFileRemoved(t *testing.T) {
	root := t.TempDir()
	for _, n := range []string{"a", "b"} {
		putResponse(t, filepath.Join(root, n+".yaml"), xdstest.Cluster(n, time.Second))
	}
	v := serveDir(t, root).view("k", resource.ClusterURL)
	v.shows("a", "b")
	if err := os.Remove(filepath.Join(root, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	v.shows("b")
}

// Names, extensions and hidden files that are ignored.
func TestDirectoryLeavesOtherFilesAlone(t *testing.T) {
	root := t.TempDir()
	for _, n := range []string{"README.md", ".hidden.yaml", "x.yaml~", "x.yml.swp", ".git/x.yaml"} {
		put(t, filepath.Join(root, n), []byte("no response"))
	}
	b := serveDir(t, root)
	b.view("k", resource.ClusterURL).shows()
	if got := b.dir.Errors(); len(got) != 0 {
		t.Errorf("errors %v, expected none", got)
	}
}

// Virtual hosts have no name in their body: a file names them in a Resource.
func TestDirectoryWrappedResource(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "vhds.yaml"), []byte(`
type_url: type.googleapis.com/envoy.config.route.v3.VirtualHost
resources:
- "@type": type.googleapis.com/envoy.service.discovery.v3.Resource
  name: routes/host
  aliases: [routes/host.example.com]
  resource:
    "@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
    name: host
    domains: ["*"]
`))
	b := serveDir(t, root)
	b.view("k", resource.VirtualHostURL, "routes/host.example.com").shows("routes/host") // B38
}

func TestDirectoryRefusesConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, []byte("x"))
	for path, want := range map[string]string{"": "empty", file: "is a file, expected a directory"} {
		_, err := NewDirectory(DirectoryConfig{Path: path})
		mention(t, err, want)
		mention(t, CheckDirectory(path), want)
	}
}

func TestCheckDirectory(t *testing.T) {
	root := t.TempDir()
	mention(t, CheckDirectory(filepath.Join(root, "none")), "does not exist")
	putResponse(t, filepath.Join(root, "good.yaml"), xdstest.Cluster("a", time.Second))
	if err := CheckDirectory(root); err != nil {
		t.Errorf("a good directory has the error %v", err)
	}
	put(t, filepath.Join(root, "b.json"), []byte("{"))
	put(t, filepath.Join(root, "team", "c.json"), []byte("{"))
	mention(t, CheckDirectory(root), filepath.Join(root, "b.json"), filepath.Join(root, "team", "c.json"))
}

// The example is the one that the documentation describes and the demo serves.
func TestDirectoryExample(t *testing.T) {
	root := filepath.Join("..", "deploy", "examples", "directory")
	if err := CheckDirectory(root); err != nil {
		t.Fatal(err)
	}
	b := serveDir(t, root)
	b.view("all", resource.ListenerURL).shows("front", "svc")
	b.view("all", resource.RouteURL, "front-routes", "svc-routes").shows("front-routes", "svc-routes")
	clusters := b.view("all", resource.ClusterURL)
	clusters.shows("svc", "web")
	b.view("all", resource.EndpointURL, "svc", "web").shows("svc", "web")
	for _, r := range clusters.changes().Resources {
		if r.Endpoints != r.Name {
			t.Errorf("the cluster %s has endpoints %q, expected those of eds.yaml", r.Name, r.Endpoints)
		}
	}
	canary := b.view("canary", resource.ClusterURL)
	canary.shows("svc", "web")
	if canary.body("web") == clusters.body("web") || canary.body("svc") != clusters.body("svc") {
		t.Error("canary has the clusters of all, expected its own \"web\" and nothing else")
	}
}

// K6: keys are made of values that clients send. No key leads out of the directory, to the
// sub-directory of another key, or to the top level as if that were a sub-directory.
func TestDirectoryKeysStayApart(t *testing.T) {
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	secret := func(name string) {
		putResponse(t, filepath.Join(outside, name, "sds.yaml"), xdstest.Secret("of "+name, "c", "k"))
	}
	for _, name := range []string{"", "root/a", "root/a%2Fb", "root/%2E.", "root/..data", "root/A", "root/sub/a", "beside"} {
		secret(name)
	}
	b := serveDir(t, root)
	for key, want := range map[aggregation.Key][]string{
		"a":          {"of root/a"},
		"A":          {"of root/A"},
		"a/b":        {"of root/a%2Fb"},
		"..":         {"of root/%2E."},
		"":           {},
		".":          {},
		"/":          {},
		"../":        {},
		"a/":         {},
		"a/../a":     {},
		"a%2Fb":      {},
		"../beside":  {},
		"..data":     {},
		"%2E.":       {},
		"%2e%2e":     {},
		"sub/a":      {},
		"a\x00":      {},
		"..\\beside": {},
	} {
		t.Run(fmt.Sprintf("%q", key), func(t *testing.T) {
			v := b.view(key, resource.SecretURL)
			v.t = t
			v.shows(want...)
		})
	}
}

// The resource of a key replaces the common one of that name; all others are shared, and nothing of
// it reaches another key.
func TestDirectoryOwnOverCommon(t *testing.T) {
	root := t.TempDir()
	putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("a", time.Second), xdstest.Cluster("b", time.Second))
	putResponse(t, filepath.Join(root, "own", "cds.yaml"), xdstest.Cluster("b", 2*time.Second), xdstest.Cluster("c", time.Second))
	b := serveDir(t, root)
	other, own := b.view("other", resource.ClusterURL), b.view("own", resource.ClusterURL)
	other.shows("a", "b")
	own.shows("a", "b", "c")
	own.showsBody("b", xdstest.Cluster("b", 2*time.Second))
	other.showsBody("b", xdstest.Cluster("b", time.Second))

	// A resource that is removed from the sub-directory is the common one again.
	putResponse(t, filepath.Join(root, "own", "cds.yaml"), xdstest.Cluster("c", time.Second))
	own.showsBody("b", xdstest.Cluster("b", time.Second))
	if err := os.RemoveAll(filepath.Join(root, "own")); err != nil {
		t.Fatal(err)
	}
	own.shows("a", "b")
	putResponse(t, filepath.Join(root, "own", "again.yaml"), xdstest.Cluster("d", time.Second)) // watched again
	own.shows("a", "b", "d")
	other.shows("a", "b")
}

// A directory that no key can have is reported as an error.
func TestDirectoryNameOfNoKey(t *testing.T) {
	root := t.TempDir()
	putResponse(t, filepath.Join(root, "a b", "cds.yaml"), xdstest.Cluster("a", time.Second))
	putResponse(t, filepath.Join(root, "%zz", "cds.yaml"), xdstest.Cluster("a", time.Second))
	b := serveDir(t, root)
	b.view("a b", resource.ClusterURL).shows()
	mention(t, b.dir.Errors()[filepath.Join(root, "a b")], `the key "a b"`, `"a%20b"`)
	mention(t, b.dir.Errors()[filepath.Join(root, "%zz")], "expected the name of a key")
}
