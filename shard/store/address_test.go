package store

import (
	"slices"
	"strings"
	"testing"
)

// TestParse: the parts of URLs; an error never contains a password.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		url  string
		mode Mode
		want address
	}{
		{"redis://h", Standalone, address{addrs: []string{"h:6379"}}},
		{"redis://h:1/3", Standalone, address{addrs: []string{"h:1"}, database: 3}},
		{"redis://h/", Standalone, address{addrs: []string{"h:6379"}}},
		{"redis://", Standalone, address{addrs: []string{"localhost:6379"}}},
		{"rediss://u:p%40@[::1]:1", Standalone, address{addrs: []string{"[::1]:1"}, user: "u", password: "p@", tls: true}},
		{"redis://[::1]", Standalone, address{addrs: []string{"[::1]:6379"}}},
		{"redis://:p@a?addr=b&addr=c:1", Cluster, address{addrs: []string{"a:6379", "b:6379", "c:1"}, password: "p"}},
		{"redis://a?addr=b:1", Sentinel, address{addrs: []string{"a:26379", "b:1"}}},
		{"unix:///run/r.sock", Standalone, address{addrs: []string{"/run/r.sock"}}},
		{"unix://u:p@/run/r.sock?db=2", Standalone, address{addrs: []string{"/run/r.sock"}, user: "u", password: "p", database: 2}},
	} {
		got, err := parse(tc.url, tc.mode)
		if err != nil {
			t.Errorf("%s: %v", tc.url, err)
			continue
		}
		if !slices.Equal(got.addrs, tc.want.addrs) || got.user != tc.want.user || got.password != tc.want.password || got.database != tc.want.database || got.tls != tc.want.tls {
			t.Errorf("%s: got %+v, expected %+v", tc.url, got, tc.want)
		}
	}
	for _, url := range []string{
		"redis://u:hunter2/x@h", "redis://u:hunter2%zz@h", "http://u:hunter2@h", "redis://u:hunter2@h/x", "redis://u:hunter2@h/-1",
		"redis://u:hunter2@h?pool_size=3", "redis://u:hunter2@h?addr=b", "unix://u:hunter2@", "hunter2",
		"redis://u:12?hunter2@h", "redis://u:12#hunter2@h:1", "redis:u:hunter2@h",
	} {
		if _, err := parse(url, Standalone); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", url, err)
		}
	}
	if _, err := parse("redis://h/1", Cluster); err == nil {
		t.Error("a cluster has one database")
	}
}

// FuzzParse: no URL causes a panic, and the result can be dialed.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"redis://h", "rediss://u:p@[::1]:1/2?addr=x", "unix:///x?db=1", "://", "redis://%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		for _, mode := range []Mode{Standalone, Sentinel, Cluster} {
			if a, err := parse(url, mode); err == nil && (len(a.addrs) == 0 || slices.Contains(a.addrs, "") || a.database < 0) {
				t.Fatalf("%s of %q: %+v", mode, url, a)
			}
		}
	})
}
