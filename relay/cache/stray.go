package cache

import "cmp"

// A stray is a name that nobody wants and that the origin may take for held all
// the same, so that one that sends only differences would be silent when it is
// wanted again. There are two kinds:
//
// A resource came when nobody wanted it, or somebody did of whom the origin has not
// been told, and does no more; mostly it crossed the request that ended its demand.
// It is ignored, but go-control-plane does not send it again.
//
// A name was dropped. Where a change of any other resource crosses that,
// go-control-plane takes all for held that was subscribed when it made the
// response; nothing in the response tells. A second drop ends that for good: a
// response that crosses it was made when the name was not subscribed.
//
// So strays are remembered, to be dropped before they are wanted again.

// maxStrays is how many strays a leg remembers of a type. When there are more,
// all of them are dropped at once.
const maxStrays = 1024

// strayLocked notes a stray, as the origin spells it.
func (l *tableLeg) strayLocked(name, spelled string) {
	if l.strays == nil {
		l.strays = make(map[string]string)
	}
	l.strays[name] = spelled
}

// droppedLocked notes that the origin is told to drop a name. What its wildcard
// covers it sends again (B36).
func (l *tableLeg) droppedLocked(name string, news told, covered bool) {
	if l.differences && !covered && !news.stray {
		l.strayLocked(name, cmp.Or(news.spelled, name))
	}
}

// dropBroughtLocked makes the leg unsubscribe a name that it was not asked for, or
// no more. stray says that this drop of it is the last one that it takes.
func (l *tableLeg) dropBroughtLocked(name, spelled string, stray bool) {
	if _, asked := l.dirty[name]; asked {
		return
	}
	if spelled == name {
		spelled = ""
	}
	l.dirty[name] = told{stray: stray, turn: l.turn, spelled: spelled}
}

// dropStrayLocked makes the leg unsubscribe a name if it is a stray. While the
// origin has not been told that the wildcard is left, that is no second drop.
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

// dropStraysLocked makes the leg unsubscribe all strays.
func (l *tableLeg) dropStraysLocked() {
	for name, spelled := range l.strays {
		l.dropBroughtLocked(name, spelled, !l.askedAll)
	}
	l.strays = nil
}
