package relay_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// redisName is a row of the table of names in docs/operate/redis.md.
type redisName struct {
	name, kind string
	pattern    *regexp.Regexp
	bytes      int // for each field; 0 for no number
	ttl        time.Duration
}

// redisPage reads the table of names, and the line of the access control list.
func redisPage(t *testing.T) (names []redisName, acl string) {
	t.Helper()
	text, err := os.ReadFile("../docs/operate/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	acl = regexp.MustCompile(`(?m)^ACL SETUSER .*$`).FindString(string(text))
	if want := "add `" + store.ShardedRights + "`"; !strings.Contains(string(text), want) {
		t.Errorf("docs/operate/redis.md does not say %q", want)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(PREFIX:[^`]*)` \\| (\\w+) \\| .* \\|([^|]*)\\|([^|]*)\\|$").FindAllStringSubmatch(string(text), -1) {
		row := redisName{name: m[1], kind: m[2]}
		row.pattern = regexp.MustCompile("^" + strings.NewReplacer("PREFIX", "xdsrelay", "KEY", ".+", "TYPE", `[\w./]+`, "BUCKET", `\d+`).Replace(regexp.QuoteMeta(m[1])) + "$")
		if number, _, ok := strings.Cut(strings.TrimSpace(m[3]), " for each"); ok {
			if row.bytes, err = strconv.Atoi(number); err != nil {
				t.Fatal(err)
			}
		}
		if m[2] != "channel" {
			if row.ttl, err = time.ParseDuration(strings.TrimSpace(m[4])); err != nil {
				t.Fatal(err)
			}
		}
		names = append(names, row)
	}
	if len(names) != 11 || acl == "" {
		t.Fatalf("docs/operate/redis.md has %d names and the line %q: has the form changed?", len(names), acl)
	}
	return names, acl
}

// TestRedisPage: with a user that has just the rights of docs/operate/redis.md, a tier with the
// last known good state in Redis works, which a node that starts without a control plane
// proves. What is then in Redis is what the page says: each name, its type, its size and
// its expiry.
func TestRedisPage(t *testing.T) {
	t.Parallel()
	names, acl := redisPage(t)
	if want := "ACL SETUSER relay on >PASSWORD " + store.Rights("xdsrelay"); acl != want {
		t.Errorf("docs/operate/redis.md has\n%s, expected\n%s", acl, want)
	}
	redis := redistest.Start(t, redistest.Config{Password: "admin-word"})
	var line []any
	for word := range strings.FieldsSeq(strings.Replace(acl, "PASSWORD", "relay-word", 1)) {
		line = append(line, word)
	}
	redis.Do(line...)

	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	up := xdstest.NewNetwork(t, origin.Addr())
	origin.Set("red", xdstest.Cluster("c", time.Second), xdstest.Endpoints("c", "10.0.0.1:1"))
	var log lines
	node := func(name string) running {
		cfg := lastGoodConfig(t, "", "")
		cfg.Node.Name, cfg.Upstream.Addresses = name, []string{up.Addr()}
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout = "redis://relay:relay-word@"+redis.Addr(), xdstest.Patience
		cfg.Tier.Peer.Address, cfg.Tier.Peer.TokenFile = "127.0.0.1:0", tokenFile(t)
		cfg.LastKnownGood.Store = config.StoreRedis
		for i := range cfg.Aggregation.Rules {
			cfg.Aggregation.Rules[i].Rollout = "quick"
		}
		return startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	}
	client := func(n running, id string) {
		c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node(id, "red")})
		c.Subscribe(xdstest.ClusterType)
		c.Subscribe(xdstest.EndpointType, "c")
		c.WaitFor(t, "a client of "+id+" to have everything", func() bool {
			return len(c.Held(xdstest.ClusterType)) == 1 && len(c.Held(xdstest.EndpointType)) == 1
		})
	}
	a, b := node("a"), node("b")
	client(a, "first")
	client(b, "second")
	origin.Set("red", xdstest.Cluster("c", 2*time.Second)) // a rollout
	kinds := func() map[string]bool {
		found := make(map[string]bool)
		for _, key := range redisKeys(redis) {
			i := slices.IndexFunc(names, func(n redisName) bool { return n.pattern.MatchString(key) })
			if i < 0 {
				t.Fatalf("%s is in Redis and not in docs/operate/redis.md", key)
			}
			found[names[i].name] = true
		}
		return found
	}
	xdstest.Eventually(t, "all names but that of orders to be in Redis", func() bool { return len(kinds()) == 7 })
	a.rollout(t, "freeze", http.StatusOK, url.Values{ops.ParamKey: {"red"}, ops.ParamReason: {"test"}})
	if n := len(kinds()); n != 8 {
		t.Errorf("%d names are in Redis after an order", n)
	}
	records, _ := redis.Do("HVALS", "xdsrelay:{members}").([]any)
	for _, r := range records {
		if !strings.Contains(fmt.Sprint(r), `"stamps":true`) {
			t.Errorf("a node does not say that it sets stamps: %s", r)
		}
	}
	for _, key := range redisKeys(redis) {
		for _, n := range names {
			if n.pattern.MatchString(key) {
				n.check(t, redis, key)
			}
		}
	}
	var channels []any
	for _, n := range names {
		if n.kind == "channel" {
			xdstest.Eventually(t, "nodes to listen to "+n.name, func() bool {
				channels, _ = redis.Do("PUBSUB", "CHANNELS").([]any)
				return slices.ContainsFunc(channels, func(c any) bool { return n.pattern.MatchString(fmt.Sprint(c)) })
			})
		}
	}
	for _, c := range channels {
		if !slices.ContainsFunc(names, func(n redisName) bool { return n.kind == "channel" && n.pattern.MatchString(fmt.Sprint(c)) }) {
			t.Errorf("nodes listen to %v, which is not in docs/operate/redis.md", c)
		}
	}

	for _, n := range []running{a, b} {
		n.stop()
		n.ended(t)
	}
	up.Refuse()
	up.Cut()
	client(node("c"), "third") // from the last known good state

	if denied, _ := redis.Do("ACL", "LOG").([]any); len(denied) > 0 || log.count("Redis re") > 0 {
		t.Errorf("Redis denied %v", denied)
	}
}

func redisKeys(redis *redistest.Server) (keys []string) {
	all, _ := redis.Do("KEYS", "*").([]any)
	for _, k := range all {
		keys = append(keys, fmt.Sprint(k))
	}
	return keys
}

// check holds that a name in Redis is as its row says.
func (n redisName) check(t *testing.T, redis *redistest.Server, key string) {
	t.Helper()
	if kind := redis.Do("TYPE", key); kind != n.kind {
		t.Errorf("%s is a %v, docs/operate/redis.md says %s", key, kind, n.kind)
	}
	milliseconds, _ := redis.Do("PTTL", key).(int64)
	left := time.Duration(milliseconds) * time.Millisecond
	if left <= 0 || left > n.ttl || left < n.ttl-time.Hour {
		t.Errorf("%s expires in %v, docs/operate/redis.md says %v", key, left, n.ttl)
	}
	if n.bytes == 0 {
		return
	}
	fields, _ := redis.Do("HGETALL", key).([]any)
	for pair := range slices.Chunk(fields, 2) {
		if size := len(fmt.Sprint(pair...)); size > n.bytes {
			t.Errorf("%s has %d bytes in %v, docs/operate/redis.md says %d", key, size, pair, n.bytes)
		}
	}
}

// TestRedisWithoutPassword: a node that Redis asks for a password serves its clients, and
// its status says what to do.
func TestRedisWithoutPassword(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Config{Password: "admin-word"})
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("red", xdstest.Cluster("c", time.Second))
	var log lines
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{origin.Addr()}
	cfg.Tier.Redis.URL, cfg.Tier.Peer.Address = "redis://"+redis.Addr(), "127.0.0.1:0"
	n := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("c", "red")})
	c.Subscribe(xdstest.ClusterType)
	c.WaitFor(t, "a client to be served", func() bool { return len(c.Held(xdstest.ClusterType)) == 1 })

	const problem, hint, answer = "Redis requires a password, and this node sends none", "set tier.redis.password_file", "NOAUTH"
	for _, page := range []string{"/readyz?verbose", "/tier/nodes"} {
		xdstest.Eventually(t, page+" to say what is wrong", func() bool {
			_, text := n.get(t, page)
			return strings.Contains(text, problem) && strings.Contains(text, hint) && strings.Contains(text, answer)
		})
	}
	for _, part := range []string{problem, hint} {
		if log.count(part) == 0 {
			t.Errorf("the log does not have %q:\n%s", part, log.text.String())
		}
	}
}
