package relay_test

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdstest"
)

// TestOriginToken: a control plane that knows its clients by a token is shown it with
// each stream, as it is in the file then.
func TestOriginToken(t *testing.T) {
	a, dir := xdstest.NewAuthority(t, "a"), t.TempDir()
	shown := make(chan []string, 100)
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{xdstest.PairOf(t, []string{"127.0.0.1"}, a.Issue)}})),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			select {
			case shown <- metadata.ValueFromIncomingContext(s.Context(), "authorization"):
			default:
			}
			return status.Error(codes.Unauthenticated, "who knows")
		}),
	)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)

	cfg := testConfig()
	cfg.Upstream.Addresses = []string{l.Addr().String()}
	_, _, cfg.Upstream.TLS.CAFile = a.WriteFiles(dir, "relay")
	cfg.Upstream.TokenFile = filepath.Join(dir, "token")
	cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 20*time.Millisecond, 20*time.Millisecond
	replaceFile(t, cfg.Upstream.TokenFile, "of-a-service-account\n")
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: start(t, cfg).Addr(), Variant: xdstest.Delta, Node: xdstest.Node("c", "shop")})
	c.Subscribe(xdstest.ClusterType)
	for _, token := range []string{"of-a-service-account", "of-the-next-hour"} {
		replaceFile(t, cfg.Upstream.TokenFile, token+"\n")
		xdstest.Eventually(t, "a stream with the token "+token, func() bool {
			select {
			case got := <-shown:
				return slices.Equal(got, []string{"Bearer " + token})
			case <-time.After(time.Millisecond):
				return false
			}
		})
	}
}
