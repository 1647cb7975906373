package store_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// granted returns the commands of the rights.
func granted() (all []string) {
	for word := range strings.FieldsSeq(store.Rights("test")) {
		if command, ok := strings.CutPrefix(word, "+"); ok {
			all = append(all, command)
		}
	}
	return all
}

// TestRightsAreWhatScriptsUse: the rights have every command that a script of a node uses, and
// otherwise only those that the client sends itself; and Try uses each of them.
func TestRightsAreWhatScriptsUse(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	used, tried, sharded := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	call := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		into := used
		switch {
		case strings.HasSuffix(file, "_test.go"):
			continue
		case filepath.Base(file) == "try.go":
			into = tried
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			if command := strings.ToLower(m[1]); slices.Contains(strings.Fields(store.ShardedRights), "+"+command) {
				sharded[command] = true
			} else {
				into[command] = true
			}
		}
	}
	if !maps.Equal(used, tried) {
		t.Errorf("scripts use %v, and Try tries %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(tried)))
	}
	for _, own := range []string{"eval", "evalsha", "subscribe", "ping", "select", "cluster|slots"} {
		used[own] = true
	}
	if got, want := slices.Sorted(slices.Values(granted())), slices.Sorted(maps.Keys(used)); !slices.Equal(got, want) {
		t.Errorf("the rights are %v, scripts and the client use %v", got, want)
	}
	sharded["ssubscribe"] = true
	if got, want := strings.Fields(strings.ReplaceAll(store.ShardedRights, "+", "")), slices.Sorted(maps.Keys(sharded)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the rights for sharded channels are %v, scripts and the client use %v", got, want)
	}
}

// TestCommandsAreOld: no command is newer than the oldest Redis that docs/operate/redis.md names.
func TestCommandsAreOld(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\| Redis \| ([\d.]+) and later`).FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/operate/redis.md names no version: has the form changed?")
	}
	oldest := numbers(t, string(m[1]))
	server := redistest.Start(t, redistest.Config{Real: true})
	for _, command := range granted() {
		docs, _ := server.Do("COMMAND", "DOCS", command).([]any)
		if len(docs) != 2 {
			t.Errorf("Redis does not know %s: %v", command, docs)
			continue
		}
		facts, _ := docs[1].([]any)
		for pair := range slices.Chunk(facts, 2) {
			if pair[0] == "since" && slices.Compare(numbers(t, pair[1].(string)), oldest) > 0 {
				t.Errorf("%s is there since %v, docs/operate/redis.md says %s", command, pair[1], m[1])
			}
		}
	}
}

// numbers returns the numbers of a version.
func numbers(t *testing.T, version string) (all []int) {
	t.Helper()
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// TestRightsInModes: the rights are sufficient with sentinels and in a cluster.
func TestRightsInModes(t *testing.T) {
	t.Parallel() // mostly waits
	grant := func(servers ...*redistest.Server) {
		line := []any{"ACL", "SETUSER", "relay", "on", ">p"}
		for word := range strings.FieldsSeq(store.Rights("test")) {
			line = append(line, word)
		}
		for _, s := range servers {
			s.Do(line...)
		}
	}
	t.Run("sentinel", func(t *testing.T) {
		tier := redistest.StartSentinels(t)
		grant(tier.Master, tier.Replica)
		s, _ := open(t, strings.Replace(tier.URL(), "redis://", "redis://relay:p@", 1), func(c *store.Config) {
			c.Mode, c.Master, c.Timeout = store.Sentinel, redistest.MasterName, 5*time.Second
		})
		if err := s.Try(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		grant(cluster.Masters...)
		s, _ := open(t, strings.Replace(cluster.URL(), "redis://", "redis://relay:p@", 1), func(c *store.Config) { c.Mode = store.Cluster })
		if err := s.Try(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
