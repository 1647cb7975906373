package floor

import (
	"bufio"
	"encoding/binary"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// tcpClient speaks a TCP floor's form.
type tcpClient struct {
	net.Conn
	in *bufio.Reader
}

func dialTCP(t *testing.T, addr string) *tcpClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &tcpClient{conn, bufio.NewReader(conn)}
}

func (c *tcpClient) send(t *testing.T, m proto.Message) {
	t.Helper()
	b, err := proto.Marshal(m)
	if err == nil {
		_, err = c.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *tcpClient) receive(t *testing.T) *discoveryv3.DiscoveryResponse {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(xdstest.Patience)); err != nil {
		t.Fatal(err)
	}
	_, body, err := readFrame(c.in, true)
	if err != nil {
		t.Fatal(err)
	}
	r := &discoveryv3.DiscoveryResponse{}
	if err := proto.Unmarshal(body, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTCP holds that the same messages go over plain TCP.
func TestTCP(t *testing.T) {
	d, _ := start(t, Config{Spec: spec, Sync: true, Transport: TCP})
	c := dialTCP(t, d.Addr())
	node := &corev3.Node{Id: content.NodeID(1), Cluster: content.KeyName(1)}
	c.send(t, &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: content.ClusterURL})
	r := c.receive(t)
	if r.GetTypeUrl() != content.ClusterURL || len(r.GetResources()) != 3 || r.GetNonce() != "s0c" {
		t.Errorf("the first response is %v", r)
	}
	// The acknowledgement is larger than what is read at a time.
	c.send(t, &discoveryv3.DiscoveryRequest{TypeUrl: content.ClusterURL, ResponseNonce: "s0c", ResourceNames: make([]string, 1000)})
	c.send(t, &discoveryv3.DiscoveryRequest{TypeUrl: content.EndpointURL, ResourceNames: spec.Names(content.EndpointURL, 1)})
	if r := c.receive(t); r.GetTypeUrl() != content.EndpointURL || len(r.GetResources()) != 3 {
		t.Errorf("the second response is %v", r)
	}
	if _, err := d.Change(content.Change{Kind: content.One}); err != nil {
		t.Fatal(err)
	}
	if r := c.receive(t); r.GetTypeUrl() != content.ClusterURL || len(r.GetResources()) != 3 || r.GetVersionInfo() != "1" {
		t.Errorf("the change is %v", r)
	}
	xdstest.Eventually(t, "3 requests and responses on a stream to be counted", func() bool {
		s := d.Stats() // what is sent is counted after that
		return s.Streams == 1 && s.Requests == 3 && s.Responses == 3
	})
	if err := d.Down(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readFrame(c.in, true); err == nil {
		t.Error("the connection is not cut")
	}
}

// TestTCPRefused holds that who speaks something else is cut off, and that one
// who leaves without reading holds nobody up.
func TestTCPRefused(t *testing.T) {
	d, _ := start(t, Config{Spec: content.Spec{Keys: 1, Clusters: 100, Size: 100_000}, Transport: TCP})
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\xff\xff\xff\xff"} {
		c := dialTCP(t, d.Addr())
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readFrame(c.in, true); err == nil {
			t.Errorf("%q is answered", text)
		}
	}
	c := dialTCP(t, d.Addr())
	c.send(t, &discoveryv3.DiscoveryRequest{TypeUrl: content.ClusterURL})
	xdstest.Eventually(t, "the request", func() bool { return d.Stats().Requests == 1 })
	changed := make(chan error, 1)
	go func() {
		_, err := d.Change(content.Change{Kind: content.Full, Type: content.ClusterURL}) // 10 MB
		changed <- err
	}()
	if tcp, ok := c.Conn.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
		t.Fatal("the connection cannot be closed halfway")
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
}
