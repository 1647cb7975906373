package journal

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Kind is what a record is about.
type Kind uint8

// The kinds.
const (
	_ Kind = iota
	// Connected: the client identified itself on a new stream.
	Connected
	// Sent: the client was sent a response.
	Sent
	// Rejected: the client rejected a response (NACK). It says why; the record of the response says
	// that it was rejected, too.
	Rejected
	// Waited: a type was not sent what is newest, for a reason.
	Waited
	// Resent: an operator ordered to send everything again.
	Resent
	// Disconnected: the stream ended.
	Disconnected
	kinds
)

// Answer is the client's answer to a response.
type Answer uint8

// The answers.
const (
	Unanswered Answer = iota
	Accepted
	Refused
)

// End is why a stream ended.
type End uint8

// The ends.
const (
	// Closed: the client ended the stream, or its connection was lost.
	Closed End = iota
	// Drained: the node drains.
	Drained
	// Shed: the node was short of memory.
	Shed
	// Rebalanced: the node had more clients than its share.
	Rebalanced
	// TooOld: the connection reached its maximum age.
	TooOld
	// Kicked: an operator closed the connection.
	Kicked
	// RulesChanged: an operator moved the client to changed aggregation rules.
	RulesChanged
	// Failed: any other reason, which the text of the record has.
	Failed
	ends
)

var endNames = [ends]string{"closed by the client", "drained", "shed", "rebalanced", "maximum age", "kicked", "rules changed", "error"}

// String is the end in the words of the status.
func (e End) String() string {
	if e >= ends {
		return ""
	}
	return endNames[e]
}

// Bounds of the parts of a record, in bytes.
const (
	maxText    = 120
	maxPeer    = 48
	maxVersion = 40
	maxType    = 64
	maxRecord  = 255
)

// Least is the least size of a journal that is not off, in bytes: every record fits.
const Least = 256

// MinWait is how long a type must wait for the same reason until that is worth a record.
const MinWait = time.Second

// Journal has the newest events of one stream. The zero value is empty. The caller guards it.
type Journal struct {
	b []byte // whole records, the oldest first
}

// Size returns the memory of the journal, in bytes.
func (j *Journal) Size() int { return cap(j.b) }

// Empty reports whether nothing is recorded.
func (j *Journal) Empty() bool { return len(j.b) == 0 }

// The parts of a record that all kinds have. The time is in milliseconds since 1970, in 6 bytes.
const (
	atLength = iota
	atKind
	atTime
	head = atTime + 6
)

func appendTime(b []byte, at time.Time) []byte {
	ms := uint64(max(at.UnixMilli(), 0)) //nolint:gosec // not negative
	return append(b, byte(ms), byte(ms>>8), byte(ms>>16), byte(ms>>24), byte(ms>>32), byte(ms>>40))
}

func readTime(b []byte) time.Time { return time.UnixMilli(readMillis(b)) }

func readMillis(b []byte) int64 {
	return int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16 | int64(b[3])<<24 | int64(b[4])<<32 | int64(b[5])<<40
}

// begin begins a record in scratch.
func begin(scratch *[maxRecord]byte, k Kind, at time.Time) []byte {
	return appendTime(append(scratch[:0], 0, byte(k)), at)
}

// add appends a record and drops the oldest ones beyond most bytes. It allocates only until the
// journal has its full size.
func (j *Journal) add(rec []byte, most int) {
	if most <= 0 {
		return
	}
	if len(rec) > maxRecord || len(rec) > most {
		return // cannot be: the parts are bounded, and most is at least Least
	}
	rec[atLength] = byte(len(rec))
	j.makeRoom(len(rec), most)
	j.b = append(j.b, rec...)
}

// makeRoom drops the oldest records so that n bytes fit into most, and doubles the memory: most clients
// have few events, and the others get to the full size in few steps.
func (j *Journal) makeRoom(n, most int) {
	drop := 0
	for len(j.b)-drop+n > most {
		drop += int(j.b[drop])
	}
	if drop > 0 {
		j.b = j.b[:copy(j.b, j.b[drop:])]
	}
	if need := len(j.b) + n; need > cap(j.b) {
		size := min((max(need, cap(j.b)*2)+15)&^15, most)
		j.b = append(make([]byte, 0, size), j.b...)
	}
}

// Connect records a new stream. variant is a byte that the caller knows.
func (j *Journal) Connect(at time.Time, variant byte, most int) {
	var scratch [maxRecord]byte
	j.add(append(begin(&scratch, Connected, at), variant), most)
}

// The fields of a response begin with its answer: a byte, and two with the time until then.
const answerSize = 3

// Send records a response.
func (j *Journal) Send(at time.Time, t *resource.Type, version string, resources, most int) {
	var scratch [maxRecord]byte
	b := appendType(begin(&scratch, Sent, at), t)
	b = append(b, byte(Unanswered), 0, 0)
	b = binary.AppendUvarint(b, uint64(max(resources, 0))) //nolint:gosec // not negative
	j.add(appendVersion(b, version), most)
}

// Answer records the answer to the newest response of a type.
func (j *Journal) Answer(at time.Time, t *resource.Type, answer Answer) {
	i, ok := j.newest(Sent, t)
	if !ok {
		return // dropped
	}
	rec := j.record(i)
	f := rec[head+typeSize(rec[head:]):]
	f[0] = byte(answer)
	binary.LittleEndian.PutUint16(f[1:], packTook(at.Sub(readTime(rec[atTime:]))))
}

// Reject records why a response was rejected.
func (j *Journal) Reject(at time.Time, t *resource.Type, code int32, why string, most int) {
	var scratch [maxRecord]byte
	b := appendType(begin(&scratch, Rejected, at), t)
	b = append(b, byte(max(min(code, 255), 0))) //nolint:gosec // codes are below 17
	j.add(appendText(b, why, maxText), most)
}

// Resend records the order to send a type again.
func (j *Journal) Resend(at time.Time, t *resource.Type, most int) {
	var scratch [maxRecord]byte
	j.add(appendType(begin(&scratch, Resent, at), t), most)
}

// Disconnect records the end of the stream.
func (j *Journal) Disconnect(at time.Time, why End, peer, text string, most int) {
	var scratch [maxRecord]byte
	b := append(begin(&scratch, Disconnected, at), byte(why))
	b = appendText(b, peer, maxPeer)
	j.add(appendText(b, text, maxText), most)
}

// The fields of a wait begin with the reason, which is never ongoing, and its end: 4 bytes with the
// milliseconds that it took.
const (
	waitSize = 5
	ongoing  = 1<<32 - 1
)

// Wait records that a type waits for a reason from now on; 0 means that it does not wait. The wait
// before it ends with that, and is forgotten if it was shorter than [MinWait].
func (j *Journal) Wait(at time.Time, t *resource.Type, reason byte, most int) {
	j.endWait(at, t)
	if reason == 0 {
		return
	}
	var scratch [maxRecord]byte
	b := append(appendType(begin(&scratch, Waited, at), t), reason)
	j.add(binary.LittleEndian.AppendUint32(b, ongoing), most)
}

func (j *Journal) endWait(at time.Time, t *resource.Type) {
	i, ok := j.newest(Waited, t)
	if !ok {
		return
	}
	rec := j.record(i)
	f := rec[head+typeSize(rec[head:])+1:]
	if binary.LittleEndian.Uint32(f) != ongoing {
		return
	}
	took := at.Sub(readTime(rec[atTime:]))
	if took < MinWait {
		j.b = slices.Delete(j.b, i, i+len(rec))
		return
	}
	binary.LittleEndian.PutUint32(f, uint32(min(took.Milliseconds(), ongoing-1))) //nolint:gosec // bounded
}

// EndWaits ends all waits, as the stream ends.
func (j *Journal) EndWaits(at time.Time) {
	for i := 0; i < len(j.b); i += int(j.b[i]) {
		rec := j.record(i)
		if Kind(rec[atKind]) != Waited {
			continue
		}
		if f := rec[head+typeSize(rec[head:])+1:]; binary.LittleEndian.Uint32(f) == ongoing {
			took := max(at.Sub(readTime(rec[atTime:])).Milliseconds(), 0)
			binary.LittleEndian.PutUint32(f, uint32(min(took, ongoing-1))) //nolint:gosec // bounded
		}
	}
}

// record returns the record at an index.
func (j *Journal) record(i int) []byte { return j.b[i : i+int(j.b[i])] }

// newest returns the index of the newest record of a kind and type.
func (j *Journal) newest(k Kind, t *resource.Type) (at int, ok bool) {
	var scratch [1 + 1 + maxType]byte
	typ := appendType(scratch[:0], t)
	for i := 0; i < len(j.b); i += int(j.b[i]) {
		if r := j.record(i); Kind(r[atKind]) == k && bytes.HasPrefix(r[head:], typ) {
			at, ok = i, true
		}
	}
	return at, ok
}
