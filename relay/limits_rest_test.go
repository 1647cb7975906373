package relay_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestLimitOfPollingIdentities: connections of clients that poll count for their
// identities as those with streams do, until they are closed.
func TestLimitOfPollingIdentities(t *testing.T) {
	mesh := xdstest.NewAuthority(t, "mesh")
	n := limited(t, func(c *config.Config) {
		c.Limits.MaxConnectionsPerIdentity = 1
		c.Listener = tlsListener(t, t.TempDir(), mesh)
		c.REST.Address, c.REST.TLS = c.Listener.Address, c.Listener.TLS
		c.Authorization.AllowAny = true
	})
	// Each has connections of its own, which it keeps.
	client := func(identity string) *http.Client {
		transport := &http.Transport{TLSClientConfig: mesh.ClientTLS(mesh, identity)}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	poll := func(c *http.Client) (code int, text string, closed bool) {
		t.Helper()
		res, err := c.Post("https://"+n.RESTAddr()+"/v3/discovery:clusters", "application/json", strings.NewReader(`{"node": {"id": "n", "cluster": "shop"}}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, string(body), res.Close
	}
	answered := func(c *http.Client, what string) {
		t.Helper()
		xdstest.Eventually(t, what, func() bool { code, _, _ := poll(c); return code == http.StatusOK })
	}
	first, second := client("web"), client("web")
	answered(first, "the first to be answered")
	code, text, closed := poll(second)
	if code != http.StatusTooManyRequests || !strings.Contains(text, "2 connections of dns:web: the limit is 1 (limits.max_connections_per_identity)") || !closed {
		t.Errorf("the second got %d %s, closed: %v", code, text, closed)
	}
	n.refusals(t, "connections_per_identity", 1)
	if code, text, _ := poll(first); code != http.StatusOK {
		t.Errorf("the first got %d %s on the connection that it has", code, text)
	}
	answered(client("db"), "another identity to be answered")
	first.CloseIdleConnections()
	answered(second, "the identity to have room again")

	// A stream counts in the same.
	second.CloseIdleConnections()
	stream := xdstest.Dial(t, n.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(mesh.ClientTLS(mesh, "web"))))
	xdstest.Eventually(t, "a stream to be served", func() bool {
		s := stream.Open(xdstest.Variant{Delta: true})
		s.Subscribe(xdstest.ClusterType)
		_, err := s.Next(xdstest.Patience, func(*xdstest.Frame) bool { return true })
		return err == nil
	})
	if code, text, _ := poll(first); code != http.StatusTooManyRequests {
		t.Errorf("beside a stream a poll got %d %s", code, text)
	}
	stream.Close()
	answered(first, "a poll to be answered after the stream")
}
