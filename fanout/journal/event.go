package journal

import (
	"encoding/binary"
	"time"
)

// Event is a decoded record. Fields that its kind does not have are zero.
type Event struct {
	At   time.Time
	Kind Kind
	// Variant is what [Journal.Connect] was given.
	Variant byte
	// Type is a type URL, of all kinds but Connected and Disconnected. A long one that xDS does not
	// define is cut.
	Type string
	// Version and Resources are of a response, Answer is the answer to it, and Took the time until
	// that. The middle of a long version is left out.
	Version   string
	Resources int
	Answer    Answer
	// Took is also the length of a wait, unless it is Ongoing.
	Took    time.Duration
	Ongoing bool
	// Reason is what [Journal.Wait] was given.
	Reason byte
	// Code and Text are those of a NACK; Text is also the status of a stream that ended.
	Code int32
	Text string
	// End and Peer are of a stream that ended.
	End  End
	Peer string
}

// Events returns the events, the oldest first.
func (j *Journal) Events() []Event { return Decode(j.b) }

// Bytes returns the records. They are not changed until the journal is.
func (j *Journal) Bytes() []byte { return j.b }

// Decode decodes records up to the first that is not valid.
func Decode(b []byte) (all []Event) {
	for len(b) > 0 {
		n := int(b[atLength])
		if n < head || n > len(b) {
			return all
		}
		e, ok := decode(b[:n])
		if !ok {
			return all
		}
		all, b = append(all, e), b[n:]
	}
	return all
}

func decode(rec []byte) (e Event, ok bool) {
	e = Event{At: readTime(rec[atTime:]), Kind: Kind(rec[atKind])}
	f := rec[head:]
	switch e.Kind {
	case Connected:
		if len(f) != 1 {
			return e, false
		}
		e.Variant = f[0]
		return e, true
	case Disconnected:
		return e.end(f)
	case Sent, Rejected, Waited, Resent:
	default:
		return e, false
	}
	if e.Type, f, ok = readType(f); !ok {
		return e, false
	}
	switch e.Kind {
	case Sent:
		return e.sent(f)
	case Rejected:
		if len(f) == 0 {
			return e, false
		}
		e.Code = int32(f[0])
		e.Text, f, ok = readText(f[1:])
		return e, ok && len(f) == 0
	case Waited:
		if len(f) != waitSize {
			return e, false
		}
		e.Reason = f[0]
		ms := binary.LittleEndian.Uint32(f[1:])
		if e.Ongoing = ms == ongoing; !e.Ongoing {
			e.Took = time.Duration(ms) * time.Millisecond
		}
		return e, true
	}
	return e, len(f) == 0
}

func (e Event) sent(f []byte) (Event, bool) {
	if len(f) < answerSize {
		return e, false
	}
	e.Answer, e.Took = Answer(f[0]), readTook(binary.LittleEndian.Uint16(f[1:]))
	n, size := binary.Uvarint(f[answerSize:])
	if size <= 0 || n > 1<<40 || e.Answer > Refused {
		return e, false
	}
	e.Resources = int(n) //nolint:gosec // compared
	var ok bool
	e.Version, ok = readVersion(f[answerSize+size:])
	return e, ok
}

func (e Event) end(f []byte) (_ Event, ok bool) {
	if len(f) == 0 || End(f[0]) >= ends {
		return e, false
	}
	e.End = End(f[0])
	if e.Peer, f, ok = readText(f[1:]); !ok {
		return e, false
	}
	e.Text, f, ok = readText(f)
	return e, ok && len(f) == 0
}
