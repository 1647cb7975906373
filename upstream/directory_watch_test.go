package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// I2: a move onto the path is detected, and so is writing in place.
func TestDirectoryReload(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "cds.yaml")
	putResponse(t, path, xdstest.Cluster("a", time.Second))
	// Long enough to write a file, also on a busy machine.
	b := serveDir(t, root, func(c *DirectoryConfig) { c.Settle = 500 * time.Millisecond })
	v := b.view("k", resource.ClusterURL)
	v.shows("a")
	moveOnto(t, path, encode(t, ".yaml", answer("", xdstest.Cluster("moved", time.Second))))
	v.shows("moved")
	write(t, path, encode(t, ".yaml", answer("", xdstest.Cluster("written", time.Second))))
	v.shows("written")
	if n := b.fileErrors(); n != 0 {
		t.Errorf("%d errors counted, expected none", n)
	}
}

// configMap is a directory as Kubernetes mounts a ConfigMap: files are links into ..data, which is
// itself a link to the data, and swapped.
type configMap struct {
	t    *testing.T
	root string
}

func (m configMap) swap(data, cluster string) {
	m.t.Helper()
	putResponse(m.t, filepath.Join(m.root, data, "cds.yaml"), xdstest.Cluster(cluster, time.Second))
	link := filepath.Join(m.root, "..data_tmp")
	m.must(os.Symlink(data, link))
	m.must(os.Rename(link, filepath.Join(m.root, "..data")))
}

func (m configMap) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// I2: a swapped link in the directory itself is detected.
func TestDirectoryLinkSwap(t *testing.T) {
	m := configMap{t, t.TempDir()}
	m.swap("..1", "a")
	m.must(os.Symlink("..data/cds.yaml", filepath.Join(m.root, "cds.yaml")))
	v := serveDir(t, m.root).view("k", resource.ClusterURL)
	v.shows("a")
	m.swap("..2", "b")
	v.shows("b")
	m.must(os.RemoveAll(filepath.Join(m.root, "..1")))
	m.swap("..3", "c")
	v.shows("c")
}

// I2: with Watched, a move there triggers a scan of the content behind it.
func TestDirectoryWatched(t *testing.T) {
	m := configMap{t, t.TempDir()}
	m.swap("..1", "a")
	root := filepath.Join(m.root, "..data")
	v := serveDir(t, root, func(c *DirectoryConfig) { c.Watched = m.root }).view("k", resource.ClusterURL)
	v.shows("a")
	m.swap("..2", "b")
	v.shows("b")
	m.swap("..3", "c")
	v.shows("c")
}

// A path that is itself a link is followed when it changes its target.
func TestDirectoryIsALink(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	m := configMap{t, top}
	putResponse(t, filepath.Join(top, "1", "cds.yaml"), xdstest.Cluster("a", time.Second))
	putResponse(t, filepath.Join(top, "2", "cds.yaml"), xdstest.Cluster("b", time.Second))
	m.must(os.Symlink("1", root))
	v := serveDir(t, root).view("k", resource.ClusterURL)
	v.shows("a")
	m.must(os.Symlink("2", filepath.Join(top, "new")))
	m.must(os.Rename(filepath.Join(top, "new"), root))
	v.shows("b")
	putResponse(t, filepath.Join(top, "2", "cds.yaml"), xdstest.Cluster("c", time.Second)) // watched too
	v.shows("c")
}

// A file that was written is read even if its size and time are unchanged.
func TestDirectoryTimeKept(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "cds.pb")
	old := time.Now().Add(-time.Hour)
	change := func(cluster string) {
		write(t, path, encode(t, ".pb", answer("", xdstest.Cluster(cluster, time.Second))))
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	change("a")
	v := serveDir(t, root).view("k", resource.ClusterURL)
	v.shows("a")
	change("b")
	v.shows("b")
}

// A directory that replaces another one is used from then on.
func TestDirectoryReplaced(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("a", time.Second))
	v := serveDir(t, root).view("k", resource.ClusterURL)
	v.shows("a")
	putResponse(t, filepath.Join(top, "new", "cds.yaml"), xdstest.Cluster("b", time.Second))
	for _, mv := range [][2]string{{"root", "old"}, {"new", "root"}} {
		if err := os.Rename(filepath.Join(top, mv[0]), filepath.Join(top, mv[1])); err != nil {
			t.Fatal(err)
		}
	}
	v.shows("b")
	putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("c", time.Second)) // in the new one
	v.shows("c")
}

// K13: as long as the directory has never existed, nothing is known of its content. K14: when it
// disappears, its content stays in effect.
func TestDirectoryComesAndGoes(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	b := serveDir(t, root)
	v := b.view("k", resource.ClusterURL)
	xdstest.Eventually(t, "the origin to be down", func() bool { return v.group.Upstream().Err != nil })
	mention(t, v.group.Upstream().Err, root, "does not exist")
	mention(t, b.dir.Errors()[root], "does not exist")
	if v.changes().Known {
		t.Error("clients are told that there is nothing, before anything was read")
	}

	stage := filepath.Join(t.TempDir(), "stage")
	putResponse(t, filepath.Join(stage, "cds.yaml"), xdstest.Cluster("a", time.Second))
	if err := os.Rename(stage, root); err != nil {
		t.Fatal(err)
	}
	v.shows("a")
	xdstest.Eventually(t, "the origin to be up", func() bool { return v.group.Upstream().Connected })

	if err := os.Rename(root, stage); err != nil {
		t.Fatal(err)
	}
	xdstest.Eventually(t, "the origin to be down again", func() bool { return !v.group.Upstream().Connected })
	v.shows("a")
	late := b.view("late", resource.ClusterURL)
	late.shows("a")
	xdstest.Eventually(t, "the origin to be down for it too", func() bool { return late.group.Upstream().Err != nil })

	if err := os.Rename(stage, root); err != nil {
		t.Fatal(err)
	}
	xdstest.Eventually(t, "the origin to be up once more", func() bool { return v.group.Upstream().Connected })
	if n := strings.Count(b.log.String(), "cannot be read"); n != 2 {
		t.Errorf("%d log lines about the missing directory, expected 2:\n%s", n, b.log)
	}
}

// bubble is a Directory in virtual time, with events from the test.
func bubble(t *testing.T, root string) (d *Directory, events chan fsnotify.Event) {
	t.Helper()
	events = make(chan fsnotify.Event)
	cfg := DirectoryConfig{Path: root, Settle: 100 * time.Millisecond}
	if err := cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	d, err := startDirectory(cfg, &dirNotify{events: events, root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, events
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A file that is written in steps is read when it no longer changes.
func TestDirectorySettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		path := filepath.Join(root, "cds.yaml")
		d, events := bubble(t, root)
		before := d.current.Load()
		whole := encode(t, ".yaml", answer("", xdstest.Cluster("a", time.Second), xdstest.Cluster("b", time.Second)))
		for n := 1; n <= 4; n++ {
			write(t, path, whole[:len(whole)*n/4])
			events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			pass(99 * time.Millisecond)
			if d.current.Load() != before {
				t.Fatalf("the file was read with %d of 4 parts written", n)
			}
		}
		pass(time.Millisecond)
		set, _ := d.current.Load().lookup("", resource.TypeOf(resource.ClusterURL))
		if len(set.resources) != 2 || len(d.Errors()) != 0 {
			t.Errorf("%d resources and errors %v, expected both clusters", len(set.resources), d.Errors())
		}
	})
}

// Files that never stop changing are still read in the end.
func TestDirectoryNeverSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		path := filepath.Join(root, "cds.yaml")
		d, events := bubble(t, root)
		before := d.current.Load()
		putResponse(t, path, xdstest.Cluster("a", time.Second))
		start := time.Now()
		for d.current.Load() == before {
			if time.Since(start) > 2*time.Second {
				t.Fatal("not read within 2 s of changes without rest")
			}
			events <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			pass(60 * time.Millisecond)
		}
		if waited := time.Since(start); waited < 900*time.Millisecond {
			t.Errorf("read after %v, expected about ten times the settle time", waited)
		}
	})
}

// The rescan finds a change without any event from the system; after an event that events were lost
// everything is read.
func TestDirectoryWithoutNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		d, _ := bubble(t, root)
		lost := make(chan error)
		d2, err := startDirectory(d.cfg, &dirNotify{errors: lost, root: root})
		if err != nil {
			t.Fatal(err)
		}
		defer d2.Close()
		putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("a", time.Second))
		has := func(d *Directory) bool {
			set, _ := d.current.Load().lookup("", resource.TypeOf(resource.ClusterURL))
			return len(set.resources) == 1
		}
		lost <- fsnotify.ErrEventOverflow
		pass(100 * time.Millisecond)
		if has(d) || !has(d2) {
			t.Errorf("read: %t without notice, %t with; expected only the latter", has(d), has(d2))
		}
		pass(rescanEvery)
		if !has(d) {
			t.Error("the rescan did not find the change")
		}
	})
}

// A scan that finds no change wakes no runner.
func TestDirectoryQuietScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		putResponse(t, filepath.Join(root, "cds.yaml"), xdstest.Cluster("a", time.Second))
		put(t, filepath.Join(root, "bad.yaml"), []byte("{"))
		d, _ := bubble(t, root)
		before := d.current.Load()
		pass(3 * rescanEvery)
		if d.current.Load() != before {
			t.Error("the runners were woken though nothing changed")
		}
	})
}
