package upstream

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// I3: if a file becomes garbage, its last good content stays in effect, and the error is counted
// and logged once. Other files are still read. Good content is applied again.
func TestDirectoryBadFile(t *testing.T) {
	root := t.TempDir()
	bad, other := filepath.Join(root, "bad.yaml"), filepath.Join(root, "other.yaml")
	putResponse(t, bad, xdstest.Cluster("a", time.Second))
	putResponse(t, other, xdstest.Cluster("b", time.Second))
	b := serveDir(t, root)
	v := b.view("k", resource.ClusterURL)
	v.shows("a", "b")

	moveOnto(t, bad, []byte("resources: [\n"))
	xdstest.Eventually(t, "the error to be shown", func() bool { return b.dir.Errors()[bad] != nil })
	putResponse(t, other, xdstest.Cluster("c", time.Second))
	v.shows("a", "c")
	if n := b.fileErrors(); n != 1 {
		t.Errorf("%d errors counted, expected 1", n)
	}
	if n := strings.Count(b.log.String(), "is unusable"); n != 1 {
		t.Errorf("%d log lines about the bad file, expected 1:\n%s", n, b.log)
	}
	if up := v.group.Upstream(); !up.Connected {
		t.Errorf("the origin is down for a bad file that had good content: %v", up.Err)
	}

	moveOnto(t, bad, []byte("resources: [[\n")) // another error: another change
	xdstest.Eventually(t, "a second error", func() bool { return b.fileErrors() == 2 })
	moveOnto(t, bad, encode(t, ".yaml", answer("", xdstest.Cluster("d", time.Second))))
	v.shows("c", "d")
	if errs := b.dir.Errors(); len(errs) != 0 {
		t.Errorf("errors %v after the repair, expected none", errs)
	}
	if !strings.Contains(b.log.String(), "is usable again") {
		t.Error("the repair was not logged")
	}
}

// C5, I3: one resource that cannot be relayed makes its file invalid.
func TestDirectoryBadResource(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "eds.yaml")
	putResponse(t, path, xdstest.Endpoints("a", "10.0.0.1:80"))
	b := serveDir(t, root)
	v := b.view("k", resource.EndpointURL, "a", "b")
	v.shows("a")
	for _, set := range [][]proto.Message{
		{xdstest.Endpoints("b", "10.0.0.1:80"), xdstest.Endpoints("b", "10.0.0.2:80")}, // B29
		{xdstest.Endpoints("b", "10.0.0.1:80"), xdstest.Cluster("b", time.Second)},
		{xdstest.Endpoints("b", "10.0.0.1:80"), xdstest.Endpoints("")},
	} {
		was := b.fileErrors()
		putResponse(t, path, set...)
		xdstest.Eventually(t, "the error to be counted", func() bool { return b.fileErrors() == was+1 })
		mention(t, b.dir.Errors()[path], path, "resource")
		v.shows("a")
	}
}

// K13: a file that was invalid from the start might hold anything of its type, so that type is not
// complete until the file is fixed; other types are.
func TestDirectoryBadFromTheStart(t *testing.T) {
	root := t.TempDir()
	bad := filepath.Join(root, "bad.yaml")
	putResponse(t, filepath.Join(root, "eds.yaml"), xdstest.Endpoints("a", "10.0.0.1:80"))
	putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("a", time.Second))
	put(t, bad, []byte("type_url: "+resource.ClusterURL+"\nresources: {\n"))
	b := serveDir(t, root)
	b.view("k", resource.EndpointURL, "a", "z").shows("a")
	v := b.view("k", resource.ClusterURL)
	xdstest.Eventually(t, "the cluster of the good file", func() bool { return slices.Equal(v.names(), []string{"a"}) })
	named := b.view("k", resource.ClusterURL, "a", "z")
	xdstest.Eventually(t, "the cluster by name", func() bool { return slices.Equal(named.names(), []string{"a"}) })
	if v.changes().Known || len(named.changes().Removed) != 0 {
		t.Error("the clusters are said to be complete while a file of them could not be read")
	}
	mention(t, v.group.Upstream().Err, bad)

	putResponse(t, bad, xdstest.Cluster("b", time.Second))
	v.shows("a", "b")
	named.shows("a")
	xdstest.Eventually(t, "the origin to be up", func() bool { return v.group.Upstream().Connected })
}

// K13: an invalid file of unknown type blocks every type until it is removed.
func TestDirectoryBadOfAnyType(t *testing.T) {
	root := t.TempDir()
	bad := filepath.Join(root, "bad.bin")
	put(t, bad, []byte("\xff\xff"))
	b := serveDir(t, root)
	v := b.view("k", resource.ClusterURL)
	xdstest.Eventually(t, "the origin to be down", func() bool { return v.group.Upstream().Err != nil })
	if v.changes().Known {
		t.Error("there are said to be no clusters while a file could not be read")
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	v.shows()

	put(t, bad, []byte("\xff\xff")) // but not if it did not exist at the start
	xdstest.Eventually(t, "the error to be shown", func() bool { return b.dir.Errors()[bad] != nil })
	b.view("other", resource.ClusterURL).shows()
}

// A problem in the sub-directory of a key affects that key alone.
func TestDirectoryBadForOneKey(t *testing.T) {
	root := t.TempDir()
	putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("a", time.Second))
	put(t, filepath.Join(root, "own", "bad.json"), []byte("{"))
	b := serveDir(t, root)
	b.view("other", resource.ClusterURL).shows("a")
	v := b.view("own", resource.ClusterURL)
	xdstest.Eventually(t, "the common cluster", func() bool { return slices.Equal(v.names(), []string{"a"}) })
	if v.changes().Known {
		t.Error("the clusters of the key are said to be complete")
	}
}

// If two files of one level have the same name, the later file is invalid, and the error names
// both. Its other resources do not change.
func TestDirectoryNameTwice(t *testing.T) {
	root := t.TempDir()
	one, two := filepath.Join(root, "1.yaml"), filepath.Join(root, "2.yaml")
	putResponse(t, one, xdstest.Cluster("a", time.Second))
	putResponse(t, two, xdstest.Cluster("b", time.Second))
	b := serveDir(t, root)
	v := b.view("k", resource.ClusterURL)
	v.shows("a", "b")
	putResponse(t, two, xdstest.Cluster("a", 2*time.Second), xdstest.Cluster("c", time.Second))
	xdstest.Eventually(t, "the error to be shown", func() bool { return b.dir.Errors()[two] != nil })
	mention(t, b.dir.Errors()[two], one, two, `"a"`)
	v.shows("a", "b")
	v.showsBody("a", xdstest.Cluster("a", time.Second))

	// Moving a name: the later file gets it when the earlier one drops it.
	putResponse(t, one, xdstest.Cluster("d", time.Second))
	v.shows("a", "c", "d")
	v.showsBody("a", xdstest.Cluster("a", 2*time.Second))
	if errs := b.dir.Errors(); len(errs) != 0 {
		t.Errorf("errors %v, expected none", errs)
	}

	// The earlier file adds a name that a later one has had all along.
	putResponse(t, one, xdstest.Cluster("c", 3*time.Second))
	v.showsBody("c", xdstest.Cluster("c", 3*time.Second))
	v.shows("a", "c")
}

// I3: a dangling link is not a removal: swaps pass through that state.
func TestDirectoryDanglingLink(t *testing.T) {
	root := t.TempDir()
	target, link := filepath.Join(root, "..data", "cds.yaml"), filepath.Join(root, "cds.yaml")
	putResponse(t, target, xdstest.Cluster("a", time.Second))
	if err := os.Symlink("..data/cds.yaml", link); err != nil {
		t.Fatal(err)
	}
	b := serveDir(t, root)
	v := b.view("k", resource.ClusterURL)
	v.shows("a")
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "touch.txt"), nil)
	xdstest.Eventually(t, "the error to be shown", func() bool { return b.dir.Errors()[link] != nil })
	v.shows("a")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	v.shows()
}

// The name of a key's directory is one path element, has no special meaning for the file system,
// and maps back to the key.
func TestDirOfKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SliceOf(rapid.SampledFrom([]rune("ab./\\%2EeF~+ \x00é")))
		k1 := aggregation.Key(string(alphabet.Draw(t, "key")))
		k2 := aggregation.Key(string(alphabet.Draw(t, "other key")))
		d1, d2 := dirOfKey(k1), dirOfKey(k2)
		if strings.ContainsAny(d1, "/\\\x00") || strings.HasPrefix(d1, ".") {
			t.Fatalf("the directory of %q is %q", k1, d1)
		}
		if k1 != k2 && d1 == d2 {
			t.Fatalf("%q and %q share the directory %q", k1, k2, d1)
		}
		if err := checkDirName(d1); k1 != "" && err != nil {
			t.Fatalf("the directory %q of %q is refused: %v", d1, k1, err)
		}
	})
}
