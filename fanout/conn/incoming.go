package conn

import (
	"time"

	"golang.org/x/net/http2"
)

// incoming follows what a client sends, as far as it takes to know what of it is not
// complete: a frame, a block of headers, and on each stream a message.
//
// Between messages a stream costs nothing here, and a message that comes in one frame
// costs no more than reading its length.
type incoming struct {
	preface int // bytes of what comes before the first frame, that are still to come
	frames  frames
	block   bool      // headers have begun that go on in the next frame
	final   bool      // with these headers the client ends the stream
	since   time.Time // when the frame or the headers that are not complete began
	last    uint32    // the highest stream

	// Of the frame, if it is one of DATA.
	message message
	before  message // what it was before the frame
	kept    bool    // there is a message that is not complete, or the first has not come
	body    int     // bytes of it that are no padding and still to come
	came    int     // bytes of it that belong to a message that is not complete
	padded  bool    // its first byte is still to come, which tells the length of that

	partial map[uint32]message // by stream; those that are not complete; nil for none
	size    int                // what these take, in bytes
	fresh   fresh              // those of partial that nobody has looked at
	ready   int                // bytes of those that are complete, without each stream's first
	cuts    []uint32           // the streams that are to be ended
	were    []uint32           // those that the server is being told to end
	out     []byte             // of what tells it, what it has not read yet
}

// fresh is since when messages are waited for, since there was a look at them last: the
// oldest of those that are a stream's first, and of others. Zero for none.
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

// take takes what was read. now is called only where something is not complete.
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

// whole tells whether what comes next is a frame that may be of any stream.
func (in *incoming) whole() bool { return in.preface == 0 && in.frames.between() && !in.block }

// begin begins a frame.
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

// data is a piece of a frame's body.
func (in *incoming) data(p []byte) {
	if in.body == 0 {
		return // padding, or no DATA
	}
	// A whole message, as nearly always. Where one has begun, its end may look so, too.
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

// end ends a frame.
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
		if in.block && flags.Has(http2.FlagHeadersEndHeaders) { // the same for both
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

// opened is called at the end of a block of headers, which begin a stream, or end it.
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

// keep notes what is left of a message after a frame.
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
		if in.before.size > 0 && m.size > in.came { // not the first piece, which is little
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

// drop forgets a stream: it has ended, or there is nothing to wait for on it.
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

// cut makes the stream end for which it is called with its message.
func (in *incoming) cut(stream uint32, m message) {
	in.size -= m.takes()
	in.partial[stream] = message{cut: true}
	in.cuts = append(in.cuts, stream)
}

// oldest is the stream with the oldest of the messages that take room.
func (in *incoming) oldest() (stream uint32, m message) {
	for id, other := range in.partial {
		if other.size > 0 && (m.size == 0 || other.since.Before(m.since)) {
			stream, m = id, other
		}
	}
	return stream, m
}

// due is when the first of what is not complete has to be so; zero for never. It looks at
// all there is.
func (in *incoming) due(b Bounds) (at time.Time) {
	in.fresh = fresh{}
	for _, m := range in.partial {
		if !m.cut {
			in.fresh.add(m)
		}
	}
	return in.freshDue(b)
}

// freshDue is due for what is not complete and was not looked at yet. It costs the same
// however much there is: it is asked for with each piece that comes.
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

// inject writes to p what ends the streams that are to be ended, where p continues
// after whole frames. It returns how much it has written, and how much may be read
// instead if it could not.
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

// wereCut is what tells the client which streams the server has ended: it has, once it
// asks for more. It is nil if there are none, and returned once.
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
