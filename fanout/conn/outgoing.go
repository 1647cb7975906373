package conn

import "golang.org/x/net/http2"

// bodyLen is how much is kept of a frame that ends something: enough for the codes of
// [endOf], and for why.
const bodyLen = 24

// outgoing follows what the server sends.
type outgoing struct {
	frames

	body [bodyLen]byte // how the body begins of a frame that ends something
	kept int           // bytes of body
}

// pass takes what is written. It calls ended with the type of each frame that ends a
// stream at once or a connection, and how its body begins; and over with each stream
// that ends, in whatever way.
func (o *outgoing) pass(p []byte, ended func(kind byte, body []byte), over func(stream uint32)) {
	for len(p) > 0 {
		n, head := o.step(p)
		piece := p[:n]
		p = p[n:]
		if !head && o.have > 0 {
			continue // in the middle of a header
		}
		kind, flags, stream := o.is()
		switch kind {
		case http2.FrameHeaders, http2.FrameData:
			if head && flags.Has(http2.FlagHeadersEndStream) { // the same for both
				over(stream)
			}
		case http2.FrameRSTStream, http2.FrameGoAway:
			if head {
				o.kept = 0
				continue
			}
			o.kept += copy(o.body[o.kept:], piece)
			if !o.between() {
				continue
			}
			ended(byte(kind), o.body[:o.kept])
			if kind == http2.FrameRSTStream {
				over(stream)
			}
		}
	}
}
