package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// hasty gives calls a short timeout, so that a stopped server is detected soon.
func hasty(c *store.Config) { c.Timeout = 200 * time.Millisecond }

// until calls Get until its error is as wanted.
func until(t *testing.T, s *store.Store, what string, want func(error) bool) {
	t.Helper()
	eventually(t, what, func() bool {
		_, err := s.Get(t.Context(), s.Name(store.TierHead, "a"))
		return want(err)
	})
}

func isDown(err error) bool { return errors.Is(err, store.ErrDown) }
func isOK(err error) bool   { return err == nil }

// TestOutage: while Redis is dead or stopped, no calls are made, except one now and then; when it
// is back they are made again. Both are logged once.
func TestOutage(t *testing.T) {
	t.Parallel() // mostly waits
	for _, fault := range []struct {
		name    string
		on, off func(*redistest.Server)
	}{
		{"dead", (*redistest.Server).Kill, (*redistest.Server).Start},
		{"stopped", (*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(fault.name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Config{})
			s, log := open(t, server.URL(), hasty)
			until(t, s, "a call to succeed", isOK)
			fault.on(server)
			until(t, s, "calls not to be made", isDown)
			if st := s.State(); st.Up || st.Error == "" {
				t.Errorf("unreachable, and the state is %+v", st)
			}
			logged := log.count("is unreachable")
			for range 100 {
				if _, err := s.Get(t.Context(), s.Name(store.TierHead, "a")); err == nil {
					t.Error("a call succeeded")
				}
			}
			if n := log.count("is unreachable"); n != logged || n < 1 {
				t.Errorf("logged %d times, and with more calls %d", logged, n)
			}
			fault.off(server)
			until(t, s, "calls to be made again", isOK)
			if st := s.State(); !st.Up || st.Error != "" {
				t.Errorf("back, and the state is %+v", st)
			}
			if n := log.count("is back"); n != log.count("is unreachable") {
				t.Errorf("logged %d times that it is back:\n%s", n, log)
			}
			if log.count("event="+string(events.RedisLost)) != logged || log.count("event="+string(events.RedisBack)) != logged {
				t.Errorf("events differ from\n%s", log)
			}
		})
	}
}

// TestGivenUp: a call that its caller cancels says nothing about Redis, and returns when its
// context ends.
func TestGivenUp(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL())
	until(t, s, "a call to succeed", isOK)
	server.Pause()
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := s.Get(ctx, s.Name(store.TierHead, "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, expected the end of the context", err)
		}
		cancel()
	}
	if st := s.State(); !st.Up {
		t.Errorf("the state is %+v", st)
	}
	server.Resume()
	until(t, s, "a call to succeed", isOK)
}

// TestRefused: a call that Redis rejects is logged once, and other calls are made.
func TestRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, log := open(t, server.URL())
	server.ReadOnly(true)
	for range 5 {
		if err := s.Set(t.Context(), s.Name(store.TierHead, "a"), []byte("x"), 0); err == nil || isDown(err) {
			t.Errorf("got %v, expected READONLY", err)
		}
	}
	if _, err := s.Get(t.Context(), s.Name(store.TierHead, "a")); err != nil {
		t.Errorf("a replica can be read: %v", err)
	}
	if st := s.State(); !st.Up || !strings.Contains(st.Error, "READONLY") {
		t.Errorf("the state is %+v", st)
	}
	server.ReadOnly(false)
	eventually(t, "writes to be taken", func() bool { return s.Set(t.Context(), s.Name(store.TierHead, "a"), []byte("x"), 0) == nil })
	if a, b := log.count("event="+string(events.RedisRefuses)), log.count("event="+string(events.RedisAccepts)); a != 1 || b != 1 {
		t.Errorf("%d and %d events, expected one each:\n%s", a, b, log)
	}
	if a, b := log.count("Redis refuses"), log.count("no longer refuses"); a != 1 || b != 1 {
		t.Errorf("logged %d and %d times, expected once each:\n%s", a, b, log)
	}
	if st := s.State(); st.Error != "" {
		t.Errorf("the state is %+v", st)
	}
}

// TestUsers: users of Redis with rights for the prefix only, whose password is in a file that
// changes. No password is logged or returned.
func TestUsers(t *testing.T) {
	server := redistest.Start(t, redistest.Config{Password: "admin-word"})
	grant := func(password string) {
		server.Do("ACL", "SETUSER", "relay", "reset", "on", ">"+password, "~test:*", "&test:*", "+@all", "-@admin", "-@dangerous")
	}
	grant("first-word")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong-word")
	s, log := open(t, strings.Replace(server.URL(), ":admin-word", "relay", 1), func(c *store.Config) { c.PasswordFile = file })
	until(t, s, "a wrong password to be refused", func(err error) bool { return err != nil })
	until(t, s, "calls not to be made", isDown)
	state := fmt.Sprint(s.State())
	write("first-word")
	until(t, s, "the right password to be read", isOK)
	hint := store.NewScript("hint", `return redis.call('PUBLISH', ARGV[1], 'x')`)
	if _, err := s.Run(t.Context(), hint, []string{s.Name(store.TierHead, "a")}, s.Channel(store.HeadHints)); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "other:{a}"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a name of somebody else's: %v", err)
	}
	write("second-word")
	grant("second-word")
	server.Do("CLIENT", "KILL", "USER", "relay")
	until(t, s, "the new password to be read", isOK)
	if n := log.count("-word") + strings.Count(state, "-word"); n != 0 {
		t.Errorf("a password was shown:\n%s\n%s", log, state)
	}
}

// TestManyAtOnce: however many calls are made while Redis is stopped, they use the existing
// connections, and end.
func TestManyAtOnce(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL(), hasty)
	until(t, s, "a call to succeed", isOK)
	server.Pause()
	const calls = 500
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := s.Get(t.Context(), s.Name(store.TierHead, "a"))
			ended <- err
		}()
	}
	for range calls {
		if err := <-ended; err == nil {
			t.Error("a call succeeded")
		}
	}
	server.Resume()
	until(t, s, "calls to be made again", isOK)
	clients, _ := server.Do("CLIENT", "LIST").(string)
	if n := strings.Count(clients, "\n"); n > 20 {
		t.Errorf("%d connections:\n%s", n, clients)
	}
}
