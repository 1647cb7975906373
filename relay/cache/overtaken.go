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

// overtaken records the names that the owner has sent in an answer that is not complete, and
// forgets them once an answer is.
func (t *core) overtaken(by int, u *Update, began time.Time) {
	stream := &t.streams[by]
	if u.Kind == Answer {
		stream.names.CaughtUp()
		return
	}
	if u.Mirror == nil || !stream.confidence.Missed() {
		return
	}
	asOf := began.Add(link.Noticed) // by then others have it, or have noticed that they are cut off
	if t.group.unreachable(1 << by) {
		asOf = u.Mirror.AsOf // the owner does not reach the control plane either
	}
	for _, r := range u.Resources {
		stream.names.Overtake(r.Key, asOf)
	}
	for _, a := range u.Errors {
		stream.names.Overtake(resource.Canonical(a.Name), asOf)
	}
	for _, spelled := range u.Removed {
		name := resource.Canonical(spelled)
		if !stream.names.IsAssumed(name) && !stream.guard.Has(name) {
			stream.names.Overtake(name, asOf)
		}
	}
}
