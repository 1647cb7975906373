package lastgood

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func openDirectory(t testing.TB, path string) (*Directory, *logs) {
	t.Helper()
	log := new(logs)
	d, err := NewDirectory(path, 1<<20, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	return d, log
}

// loaded returns the records that a store has of a key.
func loaded(t testing.TB, s Store, key string) (all []string) {
	t.Helper()
	if err := s.Load(t.Context(), key, func(sealed []byte) { all = append(all, string(sealed)) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// TestDirectory: records are found again by key, also by the next process; only the owner can read
// the files, and other files are left alone.
func TestDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, _ := openDirectory(t, path)
	save := func(key, url, text string) {
		t.Helper()
		if err := d.Save(t.Context(), key, url, "mark "+text, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	save("key", "x", "old")
	save("key", "x", "1")
	save("key", "y", "2")
	save("other", "x", "3")
	for _, e := range files(t, path) {
		info, err := os.Stat(e)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 || strings.Contains(e, "key") {
			t.Errorf("%s has mode %v", e, info.Mode())
		}
	}
	if got := loaded(t, d, "key"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %q", got)
	}
	marks, err := d.Marks(t.Context(), "key")
	if err != nil || len(marks) != 2 || marks["x"].Text != "mark 1" {
		t.Errorf("got %v, %v", marks, err)
	}

	writeFile(t, filepath.Join(path, "notes.txt"), "mine")
	half := filepath.Join(path, tempPrefix+"123")
	writeFile(t, half, "half")
	old := filepath.Join(path, fileName("old", "x"))
	writeFile(t, old, "old")
	past := time.Now().Add(-keptFor - time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	d, log := openDirectory(t, path)
	if got := loaded(t, d, "key"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("after a restart: got %q", got)
	}
	if marks, err := d.Marks(t.Context(), "key"); err != nil || len(marks) > 0 {
		t.Errorf("got %v, %v: expected no marks of what another process has written", marks, err)
	}
	left := files(t, path)
	if slices.Contains(left, half) || slices.Contains(left, old) || !slices.Contains(left, filepath.Join(path, "notes.txt")) {
		t.Errorf("%q are there", left)
	}
	if log.count("level=WARN") != 1 {
		t.Errorf("expected one line about what is no record:\n%s", log)
	}

	save("key", "x", "4")
	if err := d.Save(t.Context(), "key", "y", "", nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(t.Context(), "key", "never", "", nil); err != nil {
		t.Errorf("to remove what is not there: %v", err)
	}
	if got := loaded(t, d, "key"); !slices.Equal(got, []string{"4"}) {
		t.Errorf("got %q", got)
	}
	writeFile(t, filepath.Join(path, fileName("key", "y")), strings.Repeat("x", 2<<20))
	d, log = openDirectory(t, path)
	if got := loaded(t, d, "key"); !slices.Equal(got, []string{"4"}) || log.count("larger") != 1 {
		t.Errorf("got %d records with one that is too large:\n%s", len(got), log)
	}
	writeFile(t, filepath.Join(path, "file"), "")
	if _, err := NewDirectory(filepath.Join(path, "file"), 1, log.logger()); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func files(t testing.TB, dir string) (all []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	return append(all, hidden...)
}

// TestDirectoryGone: a directory that cannot be written is logged once, until it can.
func TestDirectoryGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	d, log := openDirectory(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := d.Save(t.Context(), fmt.Sprint("key", i), "x", "m", []byte("1")); err == nil {
			t.Error("written to a directory that is not there")
		}
	}
	if log.count("level=ERROR") != 1 {
		t.Errorf("expected one line:\n%s", log)
	}
	if got := loaded(t, d, "key0"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Save(t.Context(), "key", "x", "m", []byte("1")); err != nil || log.count("can be written again") != 1 {
		t.Errorf("%v:\n%s", err, log)
	}
}

// killed is set for a process that writes records until it is killed.
const killed = "LASTGOOD_TEST_DIRECTORY"

// TestKill: a process that is killed while it writes leaves a complete record.
func TestKill(t *testing.T) {
	if path := os.Getenv(killed); path != "" {
		writeForever(t, path)
	}
	path := t.TempDir()
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), killed+"="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(path, fileName("key", clusters.URL))
		before, _ := os.Stat(name)
		for began := time.Now(); ; <-time.After(time.Millisecond) {
			if now, err := os.Stat(name); err == nil && (before == nil || now.ModTime().After(before.ModTime())) {
				break
			}
			if time.Since(began) > patience {
				t.Fatal("nothing is written")
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		d, log := openDirectory(t, path)
		s := newTestSealer(t, "tier", nil)
		n := 0
		err := d.Load(t.Context(), "key", func(sealed []byte) {
			n++
			url, record, err := s.open("key", sealed)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Decode(record, "key", url); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil || n != 1 || log.String() != "" {
			t.Fatalf("%d records, %v:\n%s", n, err, log)
		}
		if all := files(t, path); len(all) != 1 {
			t.Fatalf("%q are left", all)
		}
	}
}

func writeForever(t *testing.T, path string) {
	d, _ := openDirectory(t, path)
	s := newTestSealer(t, "tier", nil)
	k := sample()
	for i := 0; ; i++ {
		k.Resources[0].Resource = res(clusters, "a", strings.Repeat(fmt.Sprint(i), 1000))
		sealed, err := s.seal("key", clusters.URL, Encode("key", time.Now(), k))
		if err == nil {
			err = d.Save(t.Context(), "key", clusters.URL, "m", sealed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
