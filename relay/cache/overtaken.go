package cache

import (
	"time"

	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/resource"
)

// The owner of a key may send a follower some changes before it has answered all that the follower
// asks for. Until then the rest of the follower's content is as old as before, so other nodes may have
// newer content, except of the names that the owner has just sent: another follower of the same owner
// still has what they were before while its stream is late, or while removals are withheld from it.

// overtakenLocked records the names that the owner has sent in an answer that is not complete, and
// forgets them once an answer is. t.mu must be held.
func (t *Table) overtakenLocked(by int, u *Update, began time.Time) {
	stream := &t.streams[by]
	if !u.Partial {
		stream.overtaken = nil
		return
	}
	if !u.Mirror || !stream.confidence.Missed() {
		return
	}
	asOf := began.Add(link.Noticed) // by then others have it, or have noticed that they are cut off
	if t.group.unreachable(1 << by) {
		asOf = u.AsOf // the owner does not reach the control plane either
	}
	note := func(name string) {
		if stream.overtaken == nil {
			stream.overtaken = make(map[string]time.Time)
		}
		stream.overtaken[name] = asOf
	}
	for _, r := range u.Resources {
		note(r.Key)
	}
	for _, a := range u.Errors {
		note(resource.Canonical(a.Name))
	}
	for _, spelled := range u.Removed {
		name := resource.Canonical(spelled)
		if _, assumed := stream.assumed[name]; !assumed && !stream.guard.Has(name) {
			note(name)
		}
	}
}

// overtakes reports whether the owner has sent a name since other nodes had content as of a time.
func (l *typeStreamState) overtakes(name string, asOf time.Time) bool {
	sent, ok := l.overtaken[name]
	return ok && !asOf.After(sent)
}
