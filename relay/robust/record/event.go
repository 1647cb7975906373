// Package record is what a robustness run writes down: everything that the origin,
// the clients and the faults did, in one order, so that it can be judged afterwards.
package record

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what an [Event] tells.
type Kind string

// The kinds. An event is recorded before what it tells can have an effect: a fault
// before it is brought about, a response before it is sent, a node's return before
// clients hear of it. What clients receive is recorded when they have it.
const (
	// OriginState: from here on the origin has the one resource of Resources at
	// its serial; serial 0 means that it no longer has it.
	OriginState Kind = "origin-state"
	OriginOpen  Kind = "origin-open"  // a stream's first request, which tells the key
	OriginSent  Kind = "origin-sent"  // a response
	OriginAcked Kind = "origin-acked" // the ACK of a response, with what that had in it
	OriginEnd   Kind = "origin-ended" // a stream is over

	// ClientNew: there is a client now; Wants tells what it subscribes to.
	ClientNew  Kind = "client-new"
	ClientOpen Kind = "client-open" // a stream to Node
	ClientGot  Kind = "client-got"  // a response
	// ClientRejected: the response after it has Resources that the client rejects. What it has of
	// them stays, as far as the response says.
	ClientRejected Kind = "client-rejected"
	// ClientEnd: a stream is over; Own tells that the client wanted it so.
	ClientEnd Kind = "client-ended"

	// ClientAway: the client has no stream and wants none, until ClientBack.
	ClientAway Kind = "client-away"
	ClientBack Kind = "client-back"

	Begin    Kind = "begin"     // the origin's first state is complete
	Fault    Kind = "fault"     // Why tells which one; Node which node, if any
	Healed   Kind = "healed"    // the same fault is over
	NodeDown Kind = "node-down" // a node ends: its streams may
	NodeUp   Kind = "node-up"   // it serves again
	// Held: clients must have all that the origin has, though a fault lasts.
	Held Kind = "held"
	// Rest: all must be at rest now. Why says what was not if that was waited for
	// in vain.
	Rest Kind = "rest"
)

// Resource is a resource as far as a run tells resources apart. The origin stamps
// each one with the key that it is for and a serial, which stands for one content
// and is never used for another.
type Resource struct {
	Name    string
	Version string `json:",omitempty"` // as the protocol tells it; "" on SotW
	Key     string `json:",omitempty"` // of the stamp
	Serial  int    // of the stamp; 0 where there is none
}

// Event is one line of a recording. Which fields count depends on Kind.
type Event struct {
	Seq  int           // position in the recording, from 1
	At   time.Duration // since the recording began
	Kind Kind

	Node   string              `json:",omitempty"` // a relay node's name
	Client string              `json:",omitempty"`
	Stream int                 `json:",omitempty"` // unique among those of clients, and those of the origin
	Key    string              `json:",omitempty"` // of the client, or of the origin's stream
	Wants  map[string][]string `json:",omitempty"` // names by type URL; none means all

	Type      string     `json:",omitempty"` // type URL
	Delta     bool       `json:",omitempty"`
	Version   string     `json:",omitempty"` // of the response
	Resources []Resource `json:",omitempty"`
	Removed   []string   `json:",omitempty"`
	Errors    []string   `json:",omitempty"` // names of which the response says that they cannot be had
	Bytes     int        `json:",omitempty"` // size of the response

	Why      string `json:",omitempty"` // of an end or a fault
	Own      bool   `json:",omitempty"`
	Unserved bool   `json:",omitempty"` // an end with UNAVAILABLE
}

// String is the event in one line.
func (e *Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %.3fs %s", e.Seq, e.At.Seconds(), e.Kind)
	add := func(name, value string) {
		if value != "" {
			b.WriteString(" " + name + "=" + value)
		}
	}
	add("node", e.Node)
	add("client", e.Client)
	if e.Stream != 0 {
		fmt.Fprintf(&b, " stream=%d", e.Stream)
	}
	add("key", e.Key)
	add("type", ShortType(e.Type))
	add("version", e.Version)
	for i, r := range e.Resources {
		if i == 12 {
			fmt.Fprintf(&b, " … %d in all", len(e.Resources))
			break
		}
		fmt.Fprintf(&b, " %s@%d", r.Name, r.Serial)
	}
	for _, n := range e.Removed {
		b.WriteString(" -" + n)
	}
	for _, n := range e.Errors {
		b.WriteString(" !" + n)
	}
	if e.Own {
		b.WriteString(" own")
	}
	if e.Why != "" {
		fmt.Fprintf(&b, " (%s)", e.Why)
	}
	return b.String()
}

// ShortType is the last word of a type URL.
func ShortType(typeURL string) string { return typeURL[strings.LastIndexByte(typeURL, '.')+1:] }
