package amplify

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"xdsrelay/relay/xdstest"
)

// frames are rows of what HTTP/2 has besides messages: each type of frame, again and
// again. A type without an entry fails the test.
var frames = map[http2.FrameType]func(f *http2.Framer, i int) error{
	http2.FrameData: func(f *http2.Framer, _ int) error { return f.WriteData(1, false, nil) },
	http2.FrameHeaders: func(f *http2.Framer, i int) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), EndHeaders: true})
	},
	http2.FramePriority:  func(f *http2.Framer, _ int) error { return f.WritePriority(1, http2.PriorityParam{Weight: 1}) },
	http2.FrameRSTStream: func(f *http2.Framer, i int) error { return f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel) },
	http2.FrameSettings: func(f *http2.Framer, i int) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i % 2)})
	},
	http2.FramePushPromise: func(f *http2.Framer, _ int) error {
		return f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
	},
	http2.FramePing:           func(f *http2.Framer, i int) error { return f.WritePing(false, [8]byte{byte(i)}) },
	http2.FrameGoAway:         func(f *http2.Framer, _ int) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) },
	http2.FrameWindowUpdate:   func(f *http2.Framer, _ int) error { return f.WriteWindowUpdate(0, 1) },
	http2.FrameContinuation:   func(f *http2.Framer, _ int) error { return f.WriteContinuation(1, false, nil) },
	http2.FramePriorityUpdate: func(f *http2.Framer, _ int) error { return f.WritePriorityUpdate(1, "u=1") },
	0x42:                      func(f *http2.Framer, _ int) error { return f.WriteRawFrame(0x42, 0, 0, nil) },
}

// frameRows are the rows of single frames on the port for clients.
func frameRows(t *testing.T, n *node) (rows []row) {
	t.Helper()
	kinds := []http2.FrameType{0x42}
	for k := range http2.FrameType(32) { // those that HTTP/2 defines say their name
		if name := k.String(); name != "" && !strings.HasPrefix(name, "UNKNOWN") {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		write, ok := frames[k]
		name := k.String()
		if k == 0x42 {
			name = unknown
		}
		if !ok {
			t.Errorf("HTTP/2 has frames of the type %v, of which there is no row: add it to frames", k)
			continue
		}
		rows = append(rows, row{surface: "client port", message: "HTTP/2 frames", field: name, pattern: "one again and again", send: func(t *testing.T, size int) int {
			t.Helper()
			return flood(t, n.XDS, size, write)
		}})
	}
	return rows
}

// flood sends so many bytes of frames on a connection of its own, and waits until the node
// has closed it or answered a ping that was sent last.
func flood(t *testing.T, address string, size int, write func(f *http2.Framer, i int) error) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, xdstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(xdstest.Patience))
	sent := &counting{to: conn}
	f := http2.NewFramer(sent, conn)
	f.AllowIllegalWrites = true
	last := [8]byte{0xff, 1}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if p, is := frame.(*http2.PingFrame); is && p.IsAck() && p.Data == last {
				return
			}
		}
	}()
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings()
	for i := 0; sent.n < size; i++ {
		if write(f, i) != nil {
			break // it was closed
		}
	}
	_ = f.WritePing(false, last)
	<-answered
	return sent.n
}

// counting counts what is written, and writes it in larger pieces.
type counting struct {
	to io.Writer
	n  int
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += n
	return n, err
}
