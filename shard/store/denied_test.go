package store_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/events"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestDenied: an error that only an operator can fix is reported with the problem and what to do,
// in the log and in the state, once, and without any password.
func TestDenied(t *testing.T) {
	secret := redistest.Start(t, redistest.Config{Password: "right-word"})
	secret.Do("ACL", "SETUSER", "reader", "on", ">right-word", "~test:*", "&test:*", "-@all", "+get")
	secret.Do("ACL", "SETUSER", "deaf", "on", ">right-word", "~test:*", "resetchannels", "+@all")
	plain := redistest.Start(t, redistest.Config{Real: true})
	missing := redistest.Start(t, redistest.Config{Args: []string{"--rename-command", "EVALSHA", "", "--rename-command", "EVAL", ""}})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("wrong-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := "redis://" + secret.Addr()
	as := func(server *redistest.Server, user, password string) string {
		return (&url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: server.Addr()}).String()
	}
	for name, c := range map[string]struct {
		url                   string
		change                func(*store.Config)
		answer, problem, hint string
	}{
		"no password":    {bare, nil, "NOAUTH", "Redis requires a password", "tier.redis.password_file"},
		"wrong password": {as(secret, "", "wrong-word"), nil, "WRONGPASS", "Redis rejects the user or the password", "tier.redis.password_file"},
		"wrong file":     {bare, func(c *store.Config) { c.PasswordFile = file }, "WRONGPASS", "Redis rejects the user or the password", "tier.redis.password_file"},
		"unknown user":   {as(secret, "nobody", "right-word"), nil, "WRONGPASS", "Redis rejects the user or the password", "ACL LIST"},
		"no rights":      {as(secret, "reader", "right-word"), nil, "NOPERM", "the user lacks rights in Redis", "~test:* &test:* -@all +"},
		"no channels":    {as(secret, "deaf", "right-word"), nil, "NOPERM", "the user lacks rights in Redis", "&test:*"},
		"no scripting":   {as(missing, "", ""), nil, "unknown command", "Redis does not run scripts", "EVAL"},
		"no cluster": {
			as(plain, "", ""),
			func(c *store.Config) { c.Mode = store.Cluster },
			"cluster support disabled", "the server is not part of a cluster", "tier.redis.mode: standalone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, log := open(t, strings.Replace(c.url, ":@", "", 1), func(cfg *store.Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			hints := s.Hints(t.Context(), store.MemberHints)
			say := store.NewScript("say", `return redis.call('HSET', KEYS[1], 'a', 'b')`)
			eventually(t, "the problem to be reported", func() bool {
				_, _ = s.Run(t.Context(), say, []string{s.Name(store.TierHead, "a")})
				return s.State().Problem != ""
			})
			st := s.State()
			if !strings.Contains(st.Error, c.answer) || !strings.Contains(st.Problem, c.problem) || !strings.Contains(st.Hint, c.hint) {
				t.Errorf("the state is %+v", st)
			}
			eventually(t, "the log to have it", func() bool { return log.count("problem=") > 0 })
			for _, part := range []string{c.answer, c.problem, c.hint, "level=WARN"} {
				if log.count(part) == 0 {
					t.Errorf("%q is not in the log:\n%s", part, log)
				}
			}
			if log.count("event="+string(events.RedisDenied))+log.count("event="+string(events.RedisRefuses)) == 0 {
				t.Errorf("no event:\n%s", log)
			}
			if name == "no password" && log.count("event="+string(events.RedisDenied)) == 0 {
				eventually(t, "the relay to be denied", func() bool {
					_, _ = s.Run(t.Context(), say, []string{s.Name(store.TierHead, "a")})
					return log.count("event="+string(events.RedisDenied)) > 0
				})
			}
			if log.count("-word") > 0 || strings.Contains(st.Error+st.Hint, "-word") {
				t.Errorf("a password was shown: %+v\n%s", st, log)
			}
			select {
			case h := <-hints:
				if name == "no channels" {
					t.Errorf("got %+v", h)
				}
			default:
			}
		})
	}
}

// TestTry: Try uses all rights that a node needs, removes everything that it writes, and names what
// is missing.
func TestTry(t *testing.T) {
	server := redistest.Start(t, redistest.Config{Password: "p"})
	grant := func(rights ...any) {
		server.Do(append([]any{"ACL", "SETUSER", "relay", "reset", "on", ">p"}, rights...)...)
	}
	var all []any
	for r := range strings.FieldsSeq(store.Rights("test")) {
		all = append(all, r)
	}
	as := "redis://relay:p@" + server.Addr()
	grant(all...)
	s, _ := open(t, as)
	if err := s.Try(t.Context()); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("left %v names", n)
	}
	for _, less := range [][]any{{"-publish"}, {"-subscribe"}, {"-evalsha"}, {"resetchannels"}, {"resetkeys", "~other:*"}, {"-hset"}} {
		grant(append(slices.Clip(all), less...)...)
		s, _ := open(t, as)
		if err := s.Try(t.Context()); err == nil || !strings.Contains(err.Error(), "the user lacks rights") || !strings.Contains(err.Error(), "&test:*") {
			t.Errorf("with %v: got %v", less, err)
		}
	}
	if err := first(open(t, "redis://"+server.Addr())).Try(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "NOAUTH") || !strings.Contains(err.Error(), "tier.redis.password_file") {
		t.Errorf("without a password: got %v", err)
	}
}

func first(s *store.Store, _ *log) *store.Store { return s }
