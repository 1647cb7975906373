package conn

import (
	"time"

	"golang.org/x/net/http2"
)

// incoming tracks the bytes that a client sends, as far as needed to know what is incomplete: a
// frame, a header block, and on each stream a message.
//
// Between messages a stream costs nothing here. A message that arrives in one frame costs only
// reading its length.
type incoming struct {
	preface int // bytes of the HTTP/2 client preface still to come
	frames  frames
	block   bool      // a header block continues in the next frame
	final   bool      // the client ends the stream with these headers
	since   time.Time // when the incomplete frame or header block began
	last    uint32    // the highest stream id

	// Of the current frame, if it is a DATA frame.
	message message
	before  message // its state before the frame
	kept    bool    // the message is incomplete, or the first one has not begun
	body    int     // bytes of it that are no padding, still to come
	came    int     // bytes of it that belong to an incomplete message
	padded  bool    // its first byte, the length of the padding, is still to come

	partial map[uint32]message // incomplete messages by stream; nil for none
	size    int                // memory that these take, in bytes
	fresh   fresh              // those of partial that freshDue has not seen
	ready   int                // bytes of complete messages, without the first of each stream
	cuts    []uint32           // streams to reset
	were    []uint32           // streams whose resets the server is reading
	out     []byte             // bytes of those resets that the server has not read yet
}

// fresh is when the oldest incomplete messages began that arrived since the last check: of first
// messages of streams, and of others. Zero means none.
type fresh struct{ first, later time.Time }

func (f *fresh) add(m message) {
	since := &f.later
	if m.awaited {
		since = &f.first
	}
	if since.IsZero() || m.since.Before(*since) {
		*since = m.since
	}
}

func newIncoming() incoming { return incoming{preface: len(http2.ClientPreface)} }

// take consumes what was read. It calls now only where something is incomplete.
func (in *incoming) take(p []byte, now func() time.Time) {
	n := min(in.preface, len(p))
	in.preface -= n
	p = p[n:]
	for len(p) > 0 {
		n, head := in.frames.step(p)
		switch piece := p[:n]; {
		case head:
			in.begin()
		case in.frames.have == 0:
			in.data(piece)
		}
		p = p[n:]
		if in.frames.between() {
			in.end(now)
		}
	}
	if in.preface == 0 && !in.whole() && in.since.IsZero() {
		in.since = now()
	}
}

// whole reports whether the next byte begins a frame that may belong to any stream.
func (in *incoming) whole() bool { return in.preface == 0 && in.frames.between() && !in.block }

// begin is called after a frame header.
func (in *incoming) begin() {
	kind, flags, stream := in.frames.is()
	in.body, in.came = 0, 0
	if kind != http2.FrameData {
		return
	}
	in.before = message{}
	if in.kept = len(in.partial) > 0; in.kept {
		in.before, in.kept = in.partial[stream]
	}
	in.message = in.before
	in.body = in.frames.left
	in.padded = flags.Has(http2.FlagDataPadded)
}

// data consumes a piece of a frame body.
func (in *incoming) data(p []byte) {
	if in.body == 0 {
		return // padding, or no DATA frame
	}
	// Nearly always the frame is a whole message. The end of a message that has begun may look like
	// one, too.
	if !in.kept && in.message.have == 0 && !in.padded && len(p) == in.body && isMessage(p) {
		in.body = 0
		in.ready += len(p)
		return
	}
	if in.padded {
		in.padded = false
		in.body = max(in.body-1-int(p[0]), 0)
		p = p[1:]
	}
	n := min(in.body, len(p))
	in.body -= n
	if in.message.cut {
		return
	}
	complete, size := in.message.take(p[:n])
	if in.came += n; complete {
		in.before.since = time.Time{}
		in.came = min(in.came, in.message.size)
	}
	in.ready += size
}

// end is called after a frame.
func (in *incoming) end(now func() time.Time) {
	kind, flags, stream := in.frames.is()
	switch kind {
	case http2.FrameData:
		if flags.Has(http2.FlagDataEndStream) {
			in.drop(stream)
		} else {
			in.keep(stream, now)
		}
	case http2.FrameHeaders:
		in.block, in.final = true, flags.Has(http2.FlagHeadersEndStream)
		fallthrough
	case http2.FrameContinuation:
		if in.block && flags.Has(http2.FlagHeadersEndHeaders) { // both frame types use the same flag
			in.block = false
			in.opened(stream, now)
		}
	case http2.FrameRSTStream:
		in.drop(stream)
	}
	if !in.block {
		in.since = time.Time{}
	}
}

// opened is called after a header block, which opens or ends a stream.
func (in *incoming) opened(stream uint32, now func() time.Time) {
	begins := stream > in.last
	in.last = max(in.last, stream)
	switch {
	case in.final:
		in.drop(stream)
	case begins:
		in.put(stream, message{awaited: true, since: now()})
	}
}

// keep records the message that is incomplete after a frame.
func (in *incoming) keep(stream uint32, now func() time.Time) {
	m := in.message
	switch {
	case !in.kept && m.none():
	case m.none():
		in.drop(stream)
	default:
		if m.since = in.before.since; m.since.IsZero() {
			m.since = now()
		}
		if in.before.size > 0 && m.size > in.came { // the first piece has little overhead
			m.spread += kept(in.came)
		}
		in.put(stream, m)
	}
}

func (in *incoming) put(stream uint32, m message) {
	if in.partial == nil {
		in.partial = make(map[uint32]message)
	}
	before := in.partial[stream]
	in.size += m.takes() - before.takes()
	in.partial[stream] = m
	if !m.cut {
		in.fresh.add(m)
	}
}

// drop forgets a stream that has ended or has no incomplete message.
func (in *incoming) drop(stream uint32) {
	if len(in.partial) == 0 {
		return
	}
	m := in.partial[stream]
	in.size -= m.takes()
	if delete(in.partial, stream); len(in.partial) == 0 {
		in.partial = nil // maps do not shrink
	}
}

// cut marks the stream of an incomplete message for a reset.
func (in *incoming) cut(stream uint32, m message) {
	in.size -= m.takes()
	in.partial[stream] = message{cut: true}
	in.cuts = append(in.cuts, stream)
}

// oldest returns the stream whose incomplete message with data is the oldest.
func (in *incoming) oldest() (stream uint32, m message) {
	for id, other := range in.partial {
		if other.size > 0 && (m.size == 0 || other.since.Before(m.since)) {
			stream, m = id, other
		}
	}
	return stream, m
}

// due returns the first deadline of all that is incomplete; zero for none. Its cost grows with the
// number of incomplete messages.
func (in *incoming) due(b Bounds) (at time.Time) {
	in.fresh = fresh{}
	for _, m := range in.partial {
		if !m.cut {
			in.fresh.add(m)
		}
	}
	return in.freshDue(b)
}

// freshDue is due for what became incomplete since the last check. It is called for every piece
// that is read, so its cost is constant.
func (in *incoming) freshDue(b Bounds) (at time.Time) {
	for _, wait := range [...]struct {
		since  time.Time
		within time.Duration
	}{{in.since, b.Request}, {in.fresh.first, b.First}, {in.fresh.later, b.Request}} {
		if wait.since.IsZero() || wait.within <= 0 {
			continue
		}
		if due := wait.since.Add(wait.within); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	in.fresh = fresh{}
	return at
}

// inject writes to p the resets for the server, if p continues after whole frames. It returns how
// much it wrote and, if it could not write, how much may be read instead.
func (in *incoming) inject(p []byte) (n, most int) {
	if len(in.out) == 0 && len(in.cuts) > 0 {
		if !in.whole() {
			return 0, min(len(p), in.frames.missing())
		}
		in.out = resets(in.cuts, http2.ErrCodeCancel)
		in.were, in.cuts = in.cuts, nil
	}
	n = copy(p, in.out)
	in.out = in.out[n:]
	return n, len(p)
}

// wereCut returns the resets for the client once the server has read its own: that is so when the
// server asks for more. It returns nil if there are none, and each reset once.
func (in *incoming) wereCut() []byte {
	if len(in.were) == 0 || len(in.out) > 0 {
		return nil
	}
	for _, stream := range in.were {
		in.drop(stream)
	}
	frames := resets(in.were, http2.ErrCodeEnhanceYourCalm)
	in.were, in.out = nil, nil
	return frames
}
