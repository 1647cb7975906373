package cache

import "cmp"

// A ghost subscription is a name without interest that the control plane may believe the relay
// holds, so that a control plane that sends only differences would stay silent when the name is
// asked for again. There are two kinds:
//
// A resource arrived for a name with no interest, or with an interest that the control plane was
// never sent and that has ended, typically because the resource crossed our unsubscribe. The relay
// ignores it, but go-control-plane does not send it again.
//
// A name was unsubscribed. If a response with another resource crosses that, go-control-plane
// believes the relay holds everything that was subscribed when it made the response; nothing in the
// response shows that. A second unsubscribe ends it permanently: a response that crosses it was
// made when the name was not subscribed.
//
// So ghost subscriptions are remembered, to be unsubscribed before they are asked for again.

// maxGhosts is how many ghost subscriptions a stream remembers of a type. When there are more, all
// of them are unsubscribed at once.
const maxGhosts = 1024

// addGhostLocked records a ghost subscription, as the control plane spells it.
func (l *typeStreamState) addGhostLocked(name, spelled string) {
	if l.ghosts == nil {
		l.ghosts = make(map[string]string)
	}
	l.ghosts[name] = spelled
}

// droppedLocked records that the control plane is sent an unsubscribe. It sends again what its
// wildcard covers (B36).
func (l *typeStreamState) droppedLocked(name string, news demandChange, covered bool) {
	if l.differences && !covered && !news.ghost {
		l.addGhostLocked(name, cmp.Or(news.spelled, name))
	}
}

// dropBroughtLocked makes the stream unsubscribe from a name that it has not asked for, or no
// longer asks for. The flag says that no further unsubscribe is needed.
func (l *typeStreamState) dropBroughtLocked(name, spelled string, ghost bool) {
	if _, asked := l.dirty[name]; asked {
		return
	}
	if spelled == name {
		spelled = ""
	}
	l.dirty[name] = demandChange{ghost: ghost, takeSeq: l.takeSeq, spelled: spelled}
}

// dropGhostLocked makes the stream unsubscribe from a name if it is a ghost subscription. While the
// control plane has not been sent the end of the wildcard, that does not count as the second one.
func (l *typeStreamState) dropGhostLocked(name string) {
	if spelled, ok := l.ghosts[name]; ok {
		l.dropBroughtLocked(name, spelled, !l.askedAll)
		delete(l.ghosts, name)
	}
}

// dropManyGhostsLocked is dropGhostsLocked if there are too many.
func (l *typeStreamState) dropManyGhostsLocked() {
	if len(l.ghosts) > maxGhosts {
		l.dropGhostsLocked()
	}
}

// dropGhostsLocked makes the stream unsubscribe from all ghost subscriptions.
func (l *typeStreamState) dropGhostsLocked() {
	for name, spelled := range l.ghosts {
		l.dropBroughtLocked(name, spelled, !l.askedAll)
	}
	l.ghosts = nil
}
