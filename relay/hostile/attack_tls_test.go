package hostile

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// TestAttacksOverTLS is [TestAttacks] for a port with mutual TLS and rules of
// authorization: by clients without a good certificate, and by those with one that is good
// for a single key.
func TestAttacksOverTLS(t *testing.T) {
	mesh := xdstest.NewAuthority(t, "mesh")
	s := newTLSStage(t, setup{}, mesh)
	some := []string{"half-open connections", "rapid reset", "garbage frames", "slowloris", "never reading", "half of a later request"}
	s.withstandsAll(t, []attack{
		{name: "wrong certificates", run: func(t *testing.T, s *stage) { wrongCertificates(t, s, mesh) }},
		{name: "keys of others", run: keysOfOthers},
		{name: "revoked by rotation", run: func(t *testing.T, s *stage) { revoked(t, s, mesh) }},
		{name: "half of a handshake", run: halfHandshake, waits: true},
	}, slices.DeleteFunc(slices.Concat(frames, halves), func(a attack) bool { return !*full && !slices.Contains(some, a.name) }))
}

// ping asks for the health of the node by a connection of its own.
func (s *stage) ping(t *testing.T, with *tls.Config) error {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+s.XDS, grpc.WithTransportCredentials(credentials.NewTLS(with)))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	_, err = healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// wrongCertificates comes without one, with one of another authority, with one that has
// expired, with an old version of TLS, and without TLS.
func wrongCertificates(t *testing.T, s *stage, mesh *xdstest.Authority) {
	expired := mesh.ClientTLS(nil)
	late := xdstest.PairOf(t, []string{theKey}, func(hosts ...string) (cert, key []byte) {
		return mesh.IssueUntil(time.Now().Add(-time.Minute), hosts...)
	})
	expired.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &late, nil }
	old := s.bad.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for name, with := range map[string]*tls.Config{
		"no certificate": mesh.ClientTLS(nil), "one of another authority": mesh.ClientTLS(xdstest.NewAuthority(t, "mesh"), goodName),
		"one that has expired": expired, "TLS 1.1": old,
	} {
		for range size(5, 200) {
			if err := s.ping(t, with); err == nil {
				t.Fatalf("a client with %s is let in", name)
			}
		}
	}
	if err := s.ping(t, s.bad); err != nil {
		t.Errorf("a client with a good certificate: %v", err)
	}
	w := newWire(t, s.rawDial(t))
	go w.read()
	w.open(deltaMethod)
	w.closed("without TLS")
	w.close()
}

// keysOfOthers has a good certificate, and says that it is of a key which that is not
// for, whichever service it asks.
func keysOfOthers(t *testing.T, s *stage) {
	cc := s.dial(t)
	for _, tc := range []struct {
		method string
		first  []byte
	}{
		{deltaMethod, encode(hello("x", theOther, content.ClusterURL, "*"))},
		{sotwMethod, encode(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("x", theOther), TypeUrl: content.ClusterURL})},
		{xdstest.Variant{Delta: true, Service: content.ClusterURL}.Method(), encode(hello("x", theOther, "", "*"))},
		{loadMethod, encode(&lrsv3.LoadStatsRequest{Node: xdstest.Node("x", theOther)})},
	} {
		for range size(3, 100) {
			c := open(t, cc, tc.method)
			_ = c.send(tc.first)
			c.refused(t, codes.PermissionDenied, "the fleet", "its own key")
			if c.count() > 0 {
				t.Errorf("%s: it was sent %d messages", tc.method, c.count())
			}
		}
	}
	c := open(t, cc, deltaMethod)
	_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
	_ = c.send(hello("x", theOther, content.EndpointURL, content.Name(content.EndpointURL, 0, 0)))
	c.respond(t, 2, &discoveryv3.DeltaDiscoveryResponse{})
	c.onlyOf(t, theKey, true)
}

// revoked had a good certificate, until its authority was taken away: then it is let
// in no more, and does not stay.
func revoked(t *testing.T, s *stage, mesh *xdstest.Authority) {
	former := xdstest.NewAuthority(t, "former")
	authorities := func(pem ...[]byte) {
		t.Helper()
		name := filepath.Join(s.TLS, "ca.pem")
		if err := os.WriteFile(name+".new", slices.Concat(pem...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	with := mesh.ClientTLS(former, theKey)
	authorities(mesh.PEM, former.PEM)
	xdstest.Eventually(t, "the second authority to count", func() bool { return s.ping(t, with) == nil })
	defer func(before *tls.Config) { s.bad = before }(s.bad)
	s.bad = with
	c := open(t, s.dial(t), deltaMethod)
	_ = c.send(hello("x", theKey, content.ClusterURL, "*"))
	c.respond(t, 1, &discoveryv3.DeltaDiscoveryResponse{})
	authorities(mesh.PEM)
	xdstest.Eventually(t, "the second authority not to count", func() bool { return s.ping(t, with) != nil })
	c.refused(t, codes.Unauthenticated, "certificate")
}

// halfHandshake begins handshakes, and does not go on.
func halfHandshake(t *testing.T, s *stage) {
	var all []net.Conn
	for range size(100, 3000) {
		c := s.rawDial(t)
		_, _ = c.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
		all = append(all, c)
	}
	cutOff(t, all)
}
