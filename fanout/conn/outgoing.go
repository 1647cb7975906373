package conn

import "golang.org/x/net/http2"

// bodyLen is how many bytes are kept of a frame that ends a stream or the connection: enough for
// the codes of [endOf] and the reason.
const bodyLen = 24

// outgoing tracks the frames that the server sends.
type outgoing struct {
	frames

	body [bodyLen]byte // the first bytes of a frame that ends a stream or the connection
	kept int           // bytes of body
}

// pass consumes what is written. It calls ended with the type and the first bytes of each
// RST_STREAM and GOAWAY frame, and over with each stream that ends in any way.
func (o *outgoing) pass(p []byte, ended func(kind byte, body []byte), over func(stream uint32)) {
	for len(p) > 0 {
		n, head := o.step(p)
		piece := p[:n]
		p = p[n:]
		if !head && o.have > 0 {
			continue // inside a header
		}
		kind, flags, stream := o.is()
		switch kind {
		case http2.FrameHeaders, http2.FrameData:
			if head && flags.Has(http2.FlagHeadersEndStream) { // both frame types use the same flag
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
