package store

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// denial is an answer of Redis that stays the same until an operator changes something.
type denial struct {
	answer  string // a part of it
	problem string
	hint    string
}

const (
	lacksRights = "the user lacks rights in Redis"
	grantRights = "grant them: ACL SETUSER NAME PREFIX-RIGHTS" // PREFIX-RIGHTS stands for [Rights]
)

const (
	lacksPassword = "Redis requires a password, and this node sends none"
	setPassword   = "set tier.redis.password_file, or a password in tier.redis.url"
)

// denials are matched in this order.
var denials = []denial{
	{"NOAUTH", lacksPassword, setPassword},
	{"Protocol error: unauthenticated", lacksPassword, setPassword}, // if the first command is large
	{
		"WRONGPASS", "Redis rejects the user or the password",
		"compare the user in tier.redis.url and the password in tier.redis.password_file with 'ACL LIST' in Redis; the file is read again for each connection",
	},
	{"NOPERM", lacksRights, grantRights},
	{"user executing the script can't", lacksRights, grantRights}, // in a script, before Redis 7.2
	{"ACL failure in script", lacksRights, grantRights},           // since Redis 7.2
	{"unknown command", "Redis does not run scripts, or lacks another command", "use a Redis or Valkey with EVAL and EVALSHA; some managed services turn them off"},
	{"cluster support disabled", "the server is not part of a cluster", "set tier.redis.mode: standalone, or correct tier.redis.url"},
	{"MOVED ", "the server is part of a cluster", "set tier.redis.mode: cluster"},
	{"READONLY", "the server is a replica and accepts no writes", "point tier.redis.url at the primary, or at sentinels with tier.redis.mode: sentinel"},
	{"OOM ", "Redis is full", "raise maxmemory in Redis, or lower last_known_good.max_size"},
}

// deniedBy returns the denial that explains an error; false if there is none.
func deniedBy(err error, prefix string) (denial, bool) {
	if _, ok := errors.AsType[redis.Error](err); !ok {
		return denial{}, false
	}
	text := err.Error()
	for _, d := range denials {
		if strings.Contains(text, d.answer) {
			d.hint = strings.Replace(d.hint, "PREFIX-RIGHTS", Rights(prefix), 1)
			return d, true
		}
	}
	return denial{}, false
}

// ShardedRights are rules for ACL SETUSER, in addition to [Rights], that allow sharded channels for
// hints in a cluster. Redis supports them since 7.0, and rejects them before that.
const ShardedRights = "+ssubscribe +spublish"

// Rights are the rules for ACL SETUSER that give a Redis user everything that the nodes of a tier
// need, and no more.
func Rights(prefix string) string {
	return "resetchannels ~" + prefix + ":* &" + prefix + ":* -@all " +
		"+eval +evalsha +subscribe +ping +publish +time +hget +hgetall +hset +hdel +set +getrange +exists +del +pexpire +select +cluster|slots"
}
