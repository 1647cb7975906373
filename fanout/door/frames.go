package door

// headerLen is the length of a frame's header (RFC 9113, 4.1).
const headerLen = 9

// bodyLen is how much is kept of a frame that ends something: enough for the codes of
// [endOf], and for why.
const bodyLen = 24

// frames follows where frames begin in what is written.
type frames struct {
	head [headerLen]byte
	have int           // bytes of head
	left int           // bytes of the frame's body that are still to come
	body [bodyLen]byte // how the body begins of a frame that ends something
	kept int           // bytes of body
}

// pass takes what is written, and calls ended with the type of each frame that ends a
// stream or a connection, and how its body begins.
func (f *frames) pass(p []byte, ended func(kind byte, body []byte)) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			if kind := f.head[3]; kind == typeReset || kind == typeGoAway {
				f.kept += copy(f.body[f.kept:], p[:n])
				if n == f.left {
					ended(kind, f.body[:f.kept])
				}
			}
			f.left -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have == headerLen {
			f.have, f.kept = 0, 0
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		}
	}
}

// between tells whether the next byte begins a frame.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 }
