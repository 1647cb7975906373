package conn

import (
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// unread holds how many bytes count as unread once all that was sent has arrived.
func (r *rig) unread(what string, want int) {
	r.t.Helper()
	synctest.Wait()
	if got := r.conn.Unread(); got != want {
		r.t.Errorf("%s: %d bytes count as unread, expected %d", what, got, want)
	}
}

// TestUnread: only messages count, each until the server reads it.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 100 {
			for _, err := range []error{
				r.client.WritePing(false, [8]byte{}), r.client.WriteSettingsAck(), r.client.WriteWindowUpdate(0, 1),
				r.client.WritePriority(1, http2.PriorityParam{}), r.client.WriteRawFrame(0xfa, 0, 0, make([]byte, 100)),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		r.unread("control frames", 0)

		r.open(1)
		if err := r.client.WriteDataPadded(1, false, of(100)[:50], make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
		r.unread("a message that has begun, with padding", 50)
		r.data(1, of(100)[50:]...)
		r.unread("the first of a stream, which somebody waits for", 0)
		r.data(1, of(100)...)
		r.data(1, append(of(10), of(20)[:7]...)...)
		r.unread("two that nobody has taken, and one that has begun", 105+15+7)
		r.conn.MessageRead(100)
		r.unread("one is taken", 15+7)
		r.data(1, of(20)[7:]...)
		r.conn.MessageRead(10)
		r.conn.MessageRead(20)
		r.unread("all are taken", 0)

		r.open(3)
		r.data(3, of(900)[:800]...)
		for range 100 {
			r.data(1, of(0)...)
			synctest.Wait()
			r.conn.MessageRead(0)
		}
		r.conn.MessageRead(1 << 20)
		r.unread("a message that has begun, behind many that were taken", 800)
		if err := r.client.WriteRSTStream(3, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		r.data(1, of(20)...)
		r.unread("its stream has ended", 25)
	})
}
