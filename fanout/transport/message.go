package transport

// Message is a message to a client: a body that many clients share, and a tail of this client alone.
// The two are sent one after the other as they are, and never copied.
type Message struct {
	Body, Tail []byte
	// Compressed means that both together are a gzip member. See [Call.Compress].
	Compressed bool

	room [24]byte
}

// Room returns an empty slice with the capacity for a short tail, so that the tail needs no memory
// of its own.
func (m *Message) Room() []byte { return m.room[:0] }

// HeaderSize is the size of the header that gRPC puts before each message, in bytes.
const HeaderSize = 5

// Size returns the size of the message with its header, in bytes.
func (m *Message) Size() int { return len(m.Body) + len(m.Tail) + HeaderSize }
