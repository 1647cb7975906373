package relay_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// byHand is a connection on which HTTP/2 is spoken frame by frame.
type byHand struct {
	*http2.Framer

	t      *testing.T
	block  bytes.Buffer
	fields *hpack.Encoder
}

// connectByHand connects and says what comes first.
func connectByHand(t *testing.T, addr string, settings ...http2.Setting) *byHand {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(xdstest.PatienceHere())); err != nil {
		t.Fatal(err)
	}
	return speakByHand(t, conn, settings...)
}

func speakByHand(t *testing.T, conn net.Conn, settings ...http2.Setting) *byHand {
	t.Helper()
	h := &byHand{Framer: http2.NewFramer(conn, conn), t: t}
	h.fields = hpack.NewEncoder(&h.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	h.must(h.WriteSettings(settings...))
	return h
}

func (h *byHand) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// open opens a stream, with so many KiB of headers.
func (h *byHand) open(id uint32, size int) {
	h.t.Helper()
	h.block.Reset()
	fields := [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"},
		{":authority", "relay"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	}
	for range size {
		fields = append(fields, [2]string{"x-large", strings.Repeat("x", 1<<10)})
	}
	for _, f := range fields {
		h.must(h.fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	h.must(h.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.block.Bytes(), EndHeaders: true}))
}

// ends reads until the server ends a stream or the connection.
func (h *byHand) ends() (code http2.ErrCode, why string) {
	h.t.Helper()
	for {
		f, err := h.ReadFrame()
		h.must(err)
		switch f := f.(type) {
		case *http2.RSTStreamFrame:
			return f.ErrCode, ""
		case *http2.GoAwayFrame:
			return f.ErrCode, string(f.DebugData())
		case *http2.SettingsFrame:
			if !f.IsAck() {
				h.must(h.WriteSettingsAck())
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				h.must(h.WritePing(true, f.Data))
			}
		}
	}
}

// status reads until the server ends a stream with a status.
func (h *byHand) status() (code codes.Code) {
	h.t.Helper()
	h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := h.ReadFrame()
		h.must(err)
		if f, ok := f.(*http2.MetaHeadersFrame); ok && f.StreamEnded() {
			for _, field := range f.RegularFields() {
				if field.Name == "grpc-status" {
					h.must(code.UnmarshalJSON([]byte(field.Value)))
				}
			}
			return code
		}
	}
}

// What gRPC refuses by itself is counted all the same, and disturbs nobody else.
func TestLimitsOfHTTP2(t *testing.T) {
	for _, test := range []struct {
		limit  string
		change func(*config.Config)
		over   func(*byHand)
		code   http2.ErrCode
		why    string
	}{
		{"streams_per_connection", func(c *config.Config) { c.Limits.MaxStreamsPerConnection = 1 }, func(h *byHand) {
			h.open(1, 0)
			h.open(3, 0)
		}, http2.ErrCodeRefusedStream, ""},
		{"header_size", func(c *config.Config) { c.Limits.MaxHeaderSize = 4 << 10 }, func(h *byHand) { h.open(1, 9) }, http2.ErrCodeFrameSize, ""},
		{"pings", func(*config.Config) {}, func(h *byHand) {
			for range 4 {
				h.must(h.WritePing(false, [8]byte{}))
			}
		}, http2.ErrCodeEnhanceYourCalm, "too_many_pings"},
	} {
		t.Run(test.limit, func(t *testing.T) {
			t.Parallel()
			n := limited(t, test.change)
			other := supplied(t, xdstest.Dial(t, n.Addr()))
			h := connectByHand(t, n.Addr())
			test.over(h)
			if code, why := h.ends(); code != test.code || why != test.why {
				t.Errorf("ended with %v, %q, expected %v, %q", code, why, test.code, test.why)
			}
			n.refusals(t, test.limit, 1)
			other.Subscribe(resource.ClusterURL, "a") // it goes on
			other.Ack(other.RecvType(t, resource.ClusterURL))
		})
	}
}

// A connection without a stream is told to go after its time, and another one stays.
func TestLimitOfIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		origin := network.NewStateOrigin(t, nil)
		origin.Set("", xdstest.Cluster("a", time.Second))
		cfg := testConfig()
		cfg.Admin.Address, cfg.Upstream.Addresses = "", []string{origin.Addr()}
		var log lines
		n := startWith(t, cfg, relay.Options{Listen: network.Listen, Dial: network.Dial, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		used := supplied(t, network.Client(t, n.Addr()))
		began := time.Now()
		conn, err := network.Dial(t.Context(), n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		h := speakByHand(t, conn)
		if code, why := h.ends(); code != http2.ErrCodeNo || why != "max_idle" || time.Since(began) < cfg.Downstream.IdleTimeout {
			t.Errorf("ended after %v with %v, %q", time.Since(began), code, why)
		}
		_ = conn.Close()
		synctest.Wait() // lines are written after the connection has ended
		if got := log.count("limit=idle_timeout"); got != 1 {
			t.Errorf("counted %d times", got)
		}
		origin.Set("", xdstest.Cluster("a", 2*time.Second))
		used.Ack(used.RecvType(t, resource.ClusterURL)) // it goes on
	})
}

// A client that does not read is sent away when its time is over, and learns why once
// it reads again.
func TestLimitOfSending(t *testing.T) {
	const size = 200 << 10
	dir := t.TempDir()
	writeResources(t, dir, "clusters.json", xdstest.Cluster(strings.Repeat("c", size), time.Second))
	writeResources(t, dir, "listeners.json", xdstest.Listener(strings.Repeat("l", size), "127.0.0.1:1", "r"))
	cfg := testConfig()
	cfg.Upstream.Directory = dir
	cfg.Downstream.SendTimeout = time.Second
	n := start(t, cfg)
	h := connectByHand(t, n.Addr(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	h.open(1, 0)
	for _, url := range []string{resource.ClusterURL, resource.ListenerURL} {
		m, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{Node: xdstest.Node("n", "shop"), TypeUrl: url, ResourceNamesSubscribe: []string{"*"}})
		h.must(err)
		h.must(h.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)))
	}
	n.refusals(t, "send_timeout", 1)
	h.must(h.WriteWindowUpdate(0, 1<<24))
	h.must(h.WriteWindowUpdate(1, 1<<24))
	if got := h.status(); got != codes.DeadlineExceeded {
		t.Errorf("told %v", got)
	}
}

// Other nodes have limits of their own, which leave clients alone.
func TestLimitsOfPeers(t *testing.T) {
	tier := func(change func(*config.Config)) running {
		return limited(t, func(c *config.Config) {
			c.Tier.Nodes = []string{c.Node.Name + "=127.0.0.1:1"}
			c.Tier.Peer.Address, c.Tier.Peer.AdvertiseAddress = "127.0.0.1:0", "127.0.0.1:1"
			change(c)
		})
	}
	peer := func(n running) *xdstest.Conn {
		return xdstest.Dial(t, n.PeerAddr(), grpc.WithPerRPCCredentials(otherKey{}))
	}
	n := tier(func(c *config.Config) { c.Limits.MaxPeerStreams = 1 })
	first := supplied(t, peer(n))
	if st := peer(n).Open(xdstest.Delta).ExpectClosed(t); st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "2 streams of other nodes: the limit is 1 (limits.max_peer_streams)") {
		t.Errorf("one stream too many got %v", st)
	}
	n.refusals(t, "peer_streams", 1)
	supplied(t, xdstest.Dial(t, n.Addr()))
	first.Cancel()
	xdstest.Eventually(t, "another node to be served", func() bool {
		s := peer(n).Open(xdstest.Delta)
		s.Subscribe(resource.ClusterURL)
		_, err := s.Next(xdstest.Patience, func(*xdstest.Frame) bool { return true })
		return err == nil
	})

	n = tier(func(c *config.Config) { c.Limits.MaxPeerConnections = 1 })
	supplied(t, peer(n))
	s, err := adsOf(t, n.PeerAddr())
	if err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "2 connections of other nodes: the limit is 1 (limits.max_peer_connections)") {
		t.Errorf("one connection too many got %v", err)
	}
	n.refusals(t, "peer_connections", 1)
	supplied(t, xdstest.Dial(t, n.Addr()))
}

// A node that is busy and brings no streams in sync refuses those beyond the limit at
// once, instead of letting them wait; when they have gone it takes others.
func TestLimitOfNewStreams(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Limits.MaxNewStreams, c.Limits.NewStreamsSyncTime = 2, time.Minute })
	supplied(t, xdstest.Dial(t, n.Addr()))                    // from here on there is something to tell
	comes := func(c *xdstest.Conn) (*xdstest.Stream, error) { // and never says that it has it
		s := c.Open(xdstest.Variant{Delta: true})
		s.Subscribe(resource.ClusterURL)
		_, err := s.Next(xdstest.PatienceHere(), func(*xdstest.Frame) bool { return true })
		return s, err
	}
	// However fast it was at the beginning, these would take it minutes.
	crowd := xdstest.Dial(t, n.Addr())
	for range 300 {
		if _, err := comes(crowd); err != nil {
			t.Fatal(err)
		}
	}
	rest := burn()
	defer rest()
	var err error
	xdstest.Eventually(t, "a refusal", func() bool {
		c := xdstest.Dial(t, n.Addr())
		defer c.Close()
		_, err = comes(c)
		return err != nil
	})
	rest()
	if !strings.Contains(err.Error(), codes.ResourceExhausted.String()) || !strings.Contains(err.Error(), "streams are not in sync yet, which is what this node can bring in sync within 1m0s: the limit is ") ||
		!strings.Contains(err.Error(), "(limits.max_new_streams)") {
		t.Errorf("told %v", err)
	}
	n.refusals(t, "new_streams", 1)
	crowd.Close()
	n.takesAnother(t)
}

// burn keeps the only processor that it leaves the program so busy that goroutines wait for
// it, until rest is called.
func burn() (rest func()) {
	var end atomic.Bool
	var burning sync.WaitGroup
	processors := runtime.GOMAXPROCS(1)
	for range 12 {
		burning.Go(func() {
			for sum := [32]byte{}; !end.Load(); {
				sum = sha256.Sum256(sum[:])
			}
		})
	}
	return sync.OnceFunc(func() {
		end.Store(true)
		burning.Wait()
		runtime.GOMAXPROCS(processors)
	})
}
