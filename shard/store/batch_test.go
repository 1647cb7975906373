package store_test

import (
	"errors"
	"fmt"
	"testing"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestRunEach: each of many calls has its own answer, also if the server does not have the script;
// a rejected call does not affect the others, and without a server all fail.
func TestRunEach(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL())
	say := store.NewScript("say", `
		if ARGV[1] == '3' then return redis.error_reply('NO three') end
		if ARGV[1] == '4' then return false end
		return KEYS[1] .. ARGV[1]`)
	var calls []store.Call
	for i := range 100 {
		calls = append(calls, store.Call{Keys: []string{s.Name(store.TierHead, fmt.Sprint(i))}, Args: []any{i}})
	}
	for range 2 {
		results, err := s.RunEach(t.Context(), say, calls)
		if err == nil || err.Error() != "NO three" {
			t.Fatalf("error %v", err)
		}
		for i, r := range results {
			text, _ := r.Text()
			switch {
			case i == 3 && r.Err != nil, i == 4 && r.Err == nil && r.IsNil():
			case i == 3, i == 4, r.Err != nil, text != s.Name(store.TierHead, fmt.Sprint(i))+fmt.Sprint(i):
				t.Errorf("call %d: %q, %v", i, text, r.Err)
			}
		}
	}
	if r, err := s.RunEach(t.Context(), say, nil); len(r) > 0 || err != nil {
		t.Errorf("nothing to call: %v, %v", r, err)
	}
	server.Kill()
	for range 10 { // in the end the call is not even made
		results, err := s.RunEach(t.Context(), say, calls)
		if err == nil {
			t.Fatal("no error without a server")
		}
		for i, r := range results {
			if r.Err == nil {
				t.Fatalf("call %d: no error", i)
			}
		}
	}
	if _, err := s.RunEach(t.Context(), say, calls); !errors.Is(err, store.ErrDown) {
		t.Errorf("error %v, expected that it is known", err)
	}
}
