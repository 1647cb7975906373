package ops

import (
	"strconv"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/fanout/journal"
)

// ClientEvent is an event of a client.
type ClientEvent struct {
	At time.Time `json:"at"`
	// Node is the node of the tier that has recorded it, by its clock.
	Node string `json:"node"`
	Key  string `json:"key"`
	// Peer is the address of the client, unless the stream has ended and its end was not recorded.
	Peer string `json:"peer,omitempty"`
	// Event is connected, sent, nack, waited, resend_ordered or disconnected.
	Event string `json:"event"`
	// Variant is that of a stream that began; Before is the node that the client was connected with
	// before that, if that was another one.
	Variant string `json:"variant,omitempty"`
	Before  string `json:"previous_node,omitempty"`
	// URL and Type are the type URL and its short name.
	URL  string `json:"type_url,omitempty"`
	Type string `json:"type,omitempty"`
	// Version and Resources are those of a response. The middle of a long version is left out.
	Version   string `json:"version,omitempty"`
	Resources *int   `json:"resources,omitempty"`
	// Answer is that to a response: ack or nack, or empty where there is none yet.
	Answer string `json:"answer,omitempty"`
	// Seconds is the time until the answer, or how long the client waited.
	Seconds *float64 `json:"seconds,omitempty"`
	// Ongoing says that the wait has not ended.
	Ongoing bool `json:"ongoing,omitempty"`
	// Reason is why the client waited or why its stream ended, and the reason of a NACK.
	Reason string `json:"reason,omitempty"`
	// Code is the gRPC code of a NACK.
	Code int32 `json:"code,omitempty"`
	// Text is the status of a stream that ended.
	Text string `json:"text,omitempty"`
}

// The events.
const (
	EventConnected    = "connected"
	EventSent         = "sent"
	EventNack         = "nack"
	EventWaited       = "waited"
	EventResend       = "resend_ordered"
	EventDisconnected = "disconnected"
)

var eventNames = map[journal.Kind]string{
	journal.Connected: EventConnected, journal.Sent: EventSent, journal.Rejected: EventNack,
	journal.Waited: EventWaited, journal.Resent: EventResend, journal.Disconnected: EventDisconnected,
}

// eventsOf are the events of one stream, or of those that have ended.
func eventsOf(node string, c *fanout.ClientEvents) (all []ClientEvent) {
	for i := range c.Events {
		all = append(all, eventOf(node, c, &c.Events[i]))
	}
	// The address of events is that in the end of their stream, or that of the open one.
	peer := c.Peer
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Event == EventDisconnected {
			peer = all[i].Peer
		}
		all[i].Peer = peer
	}
	return all
}

func eventOf(node string, c *fanout.ClientEvents, e *fanout.Event) ClientEvent {
	out := ClientEvent{
		At: e.At, Node: node, Key: c.Key, Event: eventNames[e.Kind], Variant: e.Variant, URL: e.Type, Version: e.Version,
		Reason: e.Reason, Ongoing: e.Ongoing, Code: e.Code,
	}
	if e.Type != "" {
		out.Type = ShortName(e.Type)
	}
	took := e.Took.Seconds()
	switch e.Kind {
	case journal.Sent:
		out.Resources = &e.Resources
		switch e.Answer {
		case journal.Accepted:
			out.Answer, out.Seconds = "ack", &took
		case journal.Refused:
			out.Answer, out.Seconds = "nack", &took
		}
	case journal.Rejected:
		out.Reason = e.Text
	case journal.Waited:
		if !e.Ongoing {
			out.Seconds = &took
		}
	case journal.Disconnected:
		out.Reason, out.Peer, out.Text = e.End.String(), e.Peer, e.Text
	}
	return out
}

// What describes an event without its time, node and type.
func (e *ClientEvent) What() string {
	took := func() string {
		if e.Seconds == nil {
			return ""
		}
		return (time.Duration(*e.Seconds * float64(time.Second))).Round(time.Millisecond).String()
	}
	switch e.Event {
	case EventConnected:
		text := "connected (" + e.Variant + ")"
		if e.Variant == fanout.PollVariant {
			text = "polls (" + e.Variant + ")"
		}
		if e.Before != "" {
			text += ", before that to node " + e.Before
		}
		return text
	case EventSent:
		if e.Resources == nil { // to a client that polls
			return "sent in response to a poll, " + map[string]string{"ack": "ACK with a later poll", "nack": "NACK", "": "no ACK yet"}[e.Answer]
		}
		text := "sent " + counted(e.Resources) + ", "
		switch e.Answer {
		case "ack":
			return text + "ACK after " + took()
		case "nack":
			return text + "NACK after " + took()
		}
		return text + "no answer"
	case EventNack:
		return "NACK, code " + strconv.Itoa(int(e.Code)) + ": " + e.Reason
	case EventWaited:
		if e.Ongoing {
			return "waiting: " + e.Reason
		}
		return "waited " + took() + ": " + e.Reason
	case EventResend:
		return "an operator ordered to resend"
	case EventDisconnected:
		text := "disconnected: " + e.Reason
		if e.Text != "" {
			text += ": " + e.Text
		}
		return text
	}
	return e.Event
}

func counted(n *int) string {
	if *n == 1 {
		return "1 resource"
	}
	return strconv.Itoa(*n) + " resources"
}
