package ops

import (
	"xdsrelay/fanout"
)

// pollEvents are what a node knows of polling clients with a name. It records no events of them, since
// each poll would be one; it has the last response and the last rejection of each type.
func (l Local) pollEvents(name string) (all []ClientEvent) {
	for _, polls := range l.Clients() {
		if polls.ID() != name {
			continue
		}
		info := polls.Info()
		if info.Variant != fanout.PollVariant {
			continue
		}
		add := func(e ClientEvent) {
			e.Node, e.Key, e.Peer = l.Node, info.Key, info.Peer
			if e.URL != "" {
				e.Type = ShortName(e.URL)
			}
			all = append(all, e)
		}
		add(ClientEvent{At: info.Since, Event: EventConnected, Variant: info.Variant})
		for i := range info.Types {
			t := &info.Types[i]
			if !t.SentAt.IsZero() {
				sent := ClientEvent{At: t.SentAt, Event: EventSent, URL: t.TypeURL, Version: t.Version}
				switch t.State {
				case Synced:
					sent.Answer = "ack"
				case Nacked:
					sent.Answer = "nack"
				}
				add(sent)
			}
			if n := t.LastNack; n != nil {
				add(ClientEvent{At: n.At, Event: EventNack, URL: t.TypeURL, Version: n.Version, Reason: n.Message, Code: n.Code})
			}
		}
	}
	return all
}
