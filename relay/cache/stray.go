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

// maxStrays is how many ghost subscriptions a stream remembers of a type. When there are more, all
// of them are unsubscribed at once.
const maxStrays = 1024

// strayLocked records a ghost subscription, as the control plane spells it.
func (l *tableLeg) strayLocked(name, spelled string) {
	if l.strays == nil {
		l.strays = make(map[string]string)
	}
	l.strays[name] = spelled
}

// droppedLocked records that the control plane is sent an unsubscribe. It sends again what its
// wildcard covers (B36).
func (l *tableLeg) droppedLocked(name string, news told, covered bool) {
	if l.differences && !covered && !news.stray {
		l.strayLocked(name, cmp.Or(news.spelled, name))
	}
}

// dropBroughtLocked makes the stream unsubscribe from a name that it has not asked for, or no
// longer asks for. The flag says that no further unsubscribe is needed.
func (l *tableLeg) dropBroughtLocked(name, spelled string, stray bool) {
	if _, asked := l.dirty[name]; asked {
		return
	}
	if spelled == name {
		spelled = ""
	}
	l.dirty[name] = told{stray: stray, turn: l.turn, spelled: spelled}
}

// dropStrayLocked makes the stream unsubscribe from a name if it is a ghost subscription. While the
// control plane has not been sent the end of the wildcard, that does not count as the second one.
func (l *tableLeg) dropStrayLocked(name string) {
	if spelled, ok := l.strays[name]; ok {
		l.dropBroughtLocked(name, spelled, !l.askedAll)
		delete(l.strays, name)
	}
}

// dropManyStraysLocked is dropStraysLocked if there are too many.
func (l *tableLeg) dropManyStraysLocked() {
	if len(l.strays) > maxStrays {
		l.dropStraysLocked()
	}
}

// dropStraysLocked makes the stream unsubscribe from all ghost subscriptions.
func (l *tableLeg) dropStraysLocked() {
	for name, spelled := range l.strays {
		l.dropBroughtLocked(name, spelled, !l.askedAll)
	}
	l.strays = nil
}
