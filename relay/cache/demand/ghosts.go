package demand

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

// SendsDifferences records that a stream's control plane tracks what it has sent, and omits what it
// believes the relay holds.
func (d *Demand[S]) SendsDifferences(stream int) {
	d.guard.Writing()
	d.streams[stream].differences = true
}

// AddGhost records that a control plane that sends differences sent a resource for which there is no
// interest on its stream. spelled is its name as the control plane spells it. [Demand.BoundGhosts]
// has to follow.
func (d *Demand[S]) AddGhost(stream int, name, spelled string) {
	d.guard.Writing()
	d.streams[stream].addGhost(name, spelled)
}

// BoundGhosts makes a stream unsubscribe from all ghost subscriptions if there are too many.
func (d *Demand[S]) BoundGhosts(stream int) {
	d.guard.Writing()
	d.streams[stream].boundGhosts()
}

// Release records that a resource on a stream is released because nothing covers it any more. brought
// says that the wildcard may have brought it, which go-control-plane takes as a subscription to its
// name.
func (d *Demand[S]) Release(stream int, name, spelled string, brought bool) {
	d.guard.Writing()
	s := &d.streams[stream]
	_, pending := s.changes[name]
	switch {
	case brought: // until its name is unsubscribed, too
		s.unsubscribe(name, spelled, false)
	case s.differences && !pending:
		// It arrived during an interest that the control plane had not been sent: it crossed the
		// end of an earlier interest.
		s.addGhost(name, spelled)
	}
}

func (s *Stream[S]) addGhost(name, spelled string) {
	if s.ghosts == nil {
		s.ghosts = make(map[string]string)
	}
	s.ghosts[name] = spelled
}

// unsubscribed records that the control plane is sent an unsubscribe. It sends again what its
// wildcard covers (B36).
func (s *Stream[S]) unsubscribed(name string, c change, covered bool) {
	if s.differences && !covered && !c.ghost {
		s.addGhost(name, cmp.Or(c.spelled, name))
	}
}

// unsubscribe makes the stream unsubscribe from a name that it has not asked for, or no longer asks
// for. ghost says that no further unsubscribe is needed.
func (s *Stream[S]) unsubscribe(name, spelled string, ghost bool) {
	if _, pending := s.changes[name]; pending {
		return
	}
	if spelled == name {
		spelled = ""
	}
	s.changes[name] = change{ghost: ghost, takes: s.takes, spelled: spelled}
}

// dropGhost makes the stream unsubscribe from a name if it is a ghost subscription. While the control
// plane has not been sent the end of the wildcard, that does not count as the second one.
func (s *Stream[S]) dropGhost(name string) {
	if spelled, ok := s.ghosts[name]; ok {
		s.unsubscribe(name, spelled, !s.wildcardAsked)
		delete(s.ghosts, name)
	}
}

func (s *Stream[S]) boundGhosts() {
	if len(s.ghosts) > maxGhosts {
		s.dropGhosts()
	}
}

// dropGhosts makes the stream unsubscribe from all ghost subscriptions.
func (s *Stream[S]) dropGhosts() {
	for name, spelled := range s.ghosts {
		s.unsubscribe(name, spelled, !s.wildcardAsked)
	}
	s.ghosts = nil
}
