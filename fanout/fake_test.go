package fanout

import (
	"net"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/xdstest"
)

// fakeCall is a call without a transport: the protocol does not need one. It records what is sent,
// has room or not, and ends.
type fakeCall struct {
	gzip  bool   // the client accepts gzip
	agent string // its user agent
	full  bool   // it is writable after no Send
	fails error  // every Send ends the call with it

	sent   int                // number of messages
	last   *transport.Message // the newest
	before int                // bytes that were unanswered then

	reason atomic.Pointer[error]
	done   chan struct{} // closed by End; may be nil
}

func newFakeCall() *fakeCall { return &fakeCall{done: make(chan struct{})} }

// Compress implements [transport.Call].
func (f *fakeCall) Compress() bool { return f.gzip }

// Send implements [transport.Call].
func (f *fakeCall) Send(m *transport.Message, unanswered int) (writable bool) {
	f.sent++
	f.last, f.before = m, unanswered
	if f.fails != nil {
		f.End(f.fails)
		return false
	}
	return !f.full
}

// End implements [transport.Call].
func (f *fakeCall) End(reason error) {
	if f.reason.CompareAndSwap(nil, &reason) && f.done != nil {
		close(f.done)
	}
}

// Ended implements [transport.Call].
func (f *fakeCall) Ended() bool { return f.reason.Load() != nil }

// Done implements [transport.Call].
func (f *fakeCall) Done() <-chan struct{} { return f.done }

// Addr implements [transport.Call].
func (*fakeCall) Addr() net.Addr { return nil }

// Identity implements [transport.Call].
func (*fakeCall) Identity() authz.Client { return authz.Client{} }

// Header implements [transport.Call].
func (f *fakeCall) Header(name string) []string {
	if name == "user-agent" && f.agent != "" {
		return []string{f.agent}
	}
	return nil
}

// HeaderSize implements [transport.Call].
func (*fakeCall) HeaderSize() int { return 0 }

// fakeClient is the client of a fake call.
type fakeClient struct {
	transport.Client
	call *fakeCall
}

// openFake opens a stream with all types.
func (w *world) openFake(f form) *fakeClient {
	w.t.Helper()
	call := newFakeCall()
	client, err := w.srv.opens(nil, f)(call)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	return &fakeClient{client, call}
}

// say sends a request. It returns the error with which the call ends, if any.
func (c *fakeClient) say(t xdstest.TB, m proto.Message) error {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	_, err = c.Request(b)
	return err
}

// end waits until the call has ended, and returns the reason for the client.
func (c *fakeClient) end() error {
	<-c.call.done
	_, err := c.NoMoreRequests(*c.call.reason.Load())
	c.Closed()
	return err
}
