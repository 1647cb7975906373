package store_test

import (
	"bytes"
	"testing"
	"time"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestCalls: values that are written can be read, by calls and by scripts, also after Redis has
// lost its scripts.
func TestCalls(t *testing.T) {
	server := redistest.Start(t, redistest.Config{Password: "secret-word"})
	s, _ := open(t, server.URL())
	ctx := t.Context()
	name := s.Name(store.TierHead, "k", "a")
	if v, err := s.Get(ctx, name); v != nil || err != nil {
		t.Fatalf("nothing there, got %q, %v", v, err)
	}
	want := bytes.Repeat([]byte{0, 1, 2, 255}, 1<<18)
	if err := s.Set(ctx, name, want, time.Hour); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(ctx, name); !bytes.Equal(v, want) || err != nil {
		t.Fatalf("got %d bytes, %v", len(v), err)
	}
	add := store.NewScript("add", `return redis.call('INCRBY', KEYS[1], ARGV[1])`)
	for i := range 3 {
		r, err := s.Run(ctx, add, []string{s.Name(store.TierHead, "k", "n")}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := r.Int(); n != int64(2*i+2) || err != nil {
			t.Errorf("call %d: got %d, %v", i, n, err)
		}
		if _, err := r.Text(); err == nil {
			t.Error("a number is no string")
		}
		server.Do("SCRIPT", "FLUSH")
	}
	if err := s.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(ctx, name); v != nil || err != nil {
		t.Fatalf("deleted, got %d bytes, %v", len(v), err)
	}
}
