package lease

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// In Redis the members of a tier are one hash. A field is the name of a node. Its value is when its
// lease ends and how long it is, in ms of the clock of Redis, when the node started, in µs, its
// incarnation and its record in JSON, which is empty for a node that has left. Such a field stays
// for leftFor, so that a node without a connection to Redis meanwhile still sees that the other one
// left on purpose.
//
// Clocks of different machines are compared only for two nodes with the same name. The clock of
// Redis may jump nevertheless, when a replica takes over: a lease that expires because of that is
// announced again, and one that would last longer than its length is shortened.

// maxLease bounds the rest of a lease, in ms: a longer one was written by another program, and
// would overflow a time.Duration.
const maxLease = 1 << 40

// leftFor is how long Redis remembers that a node left on purpose, in ms: nodes report for ten
// minutes that one disappeared.
const leftFor = 15 * 60 * 1000

// maxRecord is the maximum size of the record of a member, in bytes; a longer one does not count.
const maxRecord = 16 << 10

// renewScript announces a node and returns the other members: first whether the name belongs to
// another node, then for each other node its name, the rest of its lease in ms, its JSON and its
// incarnation. A node that yields to another one with its name takes the name only when that one
// has left. A node that has not entered writes nothing.
const renewScript = `
local name, since, incarnation, member = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease, channel, news, yields, entered = tonumber(ARGV[5]), ARGV[6], ARGV[7] == '1', ARGV[8] == '1', ARGV[9] == '1'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
local taken, found, free, out = 0, false, false, {}
for i = 1, #all, 2 do
  local till, term, began, who, json = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%S+) (.*)$')
  till, term, began = tonumber(till), tonumber(term), tonumber(began)
  if not till or till <= now then
    redis.call('HDEL', KEYS[1], all[i])
  else
    if till > now + term then
      till = now + term
      redis.call('HSET', KEYS[1], all[i], string.format('%.0f %.0f %.0f %s %s', till, term, began, who, json))
    end
    if all[i] ~= name then
      table.insert(out, all[i])
      table.insert(out, till - now)
      table.insert(out, json)
      table.insert(out, who)
    elseif who == incarnation then
      found = true
    elseif json == '' then
      free = true
    elseif (began > tonumber(since) or began == tonumber(since) and who > incarnation) then
      taken = 1
      table.insert(out, all[i])
      table.insert(out, till - now)
      table.insert(out, json)
      table.insert(out, who)
    end
  end
end
if yields and not free then taken = 1 end
if taken == 0 and entered then
  redis.call('HSET', KEYS[1], name, string.format('%.0f %.0f %s %s %s', now + lease, lease, since, incarnation, member))
  redis.call('PEXPIRE', KEYS[1], 3600000)
  if news or not found then redis.pcall('PUBLISH', channel, name) end
end
table.insert(out, 1, taken)
return out
`

// leaveScript marks a node as left, if the record of its name is still its own.
const leaveScript = `
local name, incarnation, channel, term = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local record = redis.call('HGET', KEYS[1], name)
local began, who = string.match(record or '', '^%d+ %d+ (%d+) (%S+) ')
if who == incarnation then
  redis.call('HSET', KEYS[1], name, string.format('%.0f %.0f %s %s ', now + term, term, began, who))
  redis.pcall('PUBLISH', channel, name)
end
return 1
`

// answer is the result of renewScript.
type answer struct {
	taken   bool // another node has the name of this one, and the name belongs to it
	found   []found
	foreign []string // names of records that no node of the tier has signed
}

// found is one entry of it.
type found struct {
	member shard.Member
	left   bool          // it has left: only its name and incarnation are known
	lease  time.Duration // the rest of it
}

// readAnswer decodes the result of renewScript. It skips malformed entries, and those that verified
// rejects: anyone may have written them.
func readAnswer(r store.Reply, verified func(text string) bool) (a answer, err error) {
	list, err := r.List()
	if err != nil {
		return a, err
	}
	if len(list)%4 != 1 {
		return a, fmt.Errorf("redis answered %d values, expected one, and four for each member", len(list))
	}
	taken, err := list[0].Int()
	if err != nil {
		return a, err
	}
	a.taken = taken == 1
	for e := list[1:]; len(e) > 0; e = e[4:] {
		name, err := e[0].Text()
		if err != nil {
			return a, err
		}
		left, err := e[1].Int()
		if err != nil {
			return a, err
		}
		text, err := e[2].Text()
		if err != nil {
			return a, err
		}
		incarnation, err := e[3].Text()
		if err != nil {
			return a, err
		}
		if text != "" && !verified(text) {
			a.foreign = append(a.foreign, name)
			continue
		}
		if m, ok := readMember(name, text); ok {
			if text == "" {
				m.Incarnation = incarnation
			}
			a.found = append(a.found, found{member: m, left: text == "", lease: time.Duration(min(left, maxLease)) * time.Millisecond})
		}
	}
	return a, nil
}

func readMember(name, text string) (m shard.Member, ok bool) {
	if text == "" {
		return shard.Member{Name: name}, true
	}
	if len(text) > maxRecord || json.Unmarshal([]byte(text), &m) != nil || m.Name != name || !shard.IsAddress(m.Peer) {
		return m, false
	}
	return m, true
}

// micros returns a time in the format of renewScript.
func micros(t time.Time) string { return strconv.FormatInt(max(t.UnixMicro(), 0), 10) }
