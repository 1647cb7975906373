package relay_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// tlsPair are two nodes on loopback, of a list that all know: an owner of key, and a
// follower of it.
type tlsPair struct {
	t               *testing.T
	origin          *xdstest.StateOrigin
	key             string
	owner, follower *place
	clients         []*xdstest.Auto
}

// place is where one of them is.
type place struct {
	running
	t     *testing.T
	name  string
	dir   string           // of its certificates
	way   *xdstest.Network // to its peer port
	files config.TLS
}

// rotate gives a node a new certificate.
func (p *place) rotate(a *xdstest.Authority) {
	p.files.CertFile, p.files.KeyFile, p.files.CAFile = a.WriteFiles(p.dir, "127.0.0.1", p.name)
}

// newTLSPair makes the places of the nodes, with certificates of an authority.
func newTLSPair(t *testing.T, a *xdstest.Authority) *tlsPair {
	t.Helper()
	p := &tlsPair{t: t, origin: xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)}
	for _, one := range []**place{&p.owner, &p.follower} {
		*one = &place{t: t, dir: t.TempDir(), way: xdstest.NewNetwork(t, "")}
	}
	p.owner.name, p.follower.name = "a", "b"
	p.owner.rotate(a)
	p.follower.rotate(a)
	view := shard.NewView([]shard.Member{{Name: "a"}, {Name: "b"}})
	for i := 0; ; i++ {
		p.key = fmt.Sprintf("key-%d", i)
		if m, _ := view.Owner(p.key); m.Name == p.owner.name {
			break
		}
	}
	p.set(time.Second)
	return p
}

// start starts both nodes, with a client on each. Nodes stay members for longer than
// the test lasts, and so nobody waits until they are ready: each asks the other rarely.
func (p *tlsPair) start(ownerTimeout time.Duration) {
	p.t.Helper()
	for _, one := range []*place{p.owner, p.follower} {
		cfg := testConfig()
		cfg.Node.Name, cfg.Admin.Address = one.name, ""
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{p.origin.Addr()}, config.Delta
		cfg.Tier.Nodes = []string{p.owner.name + "=" + p.owner.way.Addr(), p.follower.name + "=" + p.follower.way.Addr()}
		cfg.Tier.Lease, cfg.Tier.OwnerTimeout = 5*time.Minute, ownerTimeout
		cfg.Tier.Peer.Address, cfg.Tier.Peer.AdvertiseAddress, cfg.Tier.Peer.TLS = "127.0.0.1:0", one.way.Addr(), one.files
		one.running = beginWith(p.t, cfg, relay.Options{Version: "v-test"})
		one.way.Retarget(one.PeerAddr())
		c := xdstest.StartAuto(p.t, xdstest.AutoConfig{Addr: one.Addr(), Variant: xdstest.Delta, Node: xdstest.Node(one.name, p.key)})
		c.Subscribe(xdstest.ClusterType)
		p.clients = append(p.clients, c)
	}
	p.t.Cleanup(func() { // both at a time: each waits for the other to hear of it
		p.owner.stop()
		p.follower.stop()
	})
}

// set changes what the origin serves.
func (p *tlsPair) set(timeout time.Duration) {
	p.origin.Set(p.key, xdstest.Cluster("c", timeout))
}

// converged waits until both clients hold what the origin serves.
func (p *tlsPair) converged() {
	p.t.Helper()
	for _, c := range p.clients {
		c.WaitFor(p.t, "what the origin serves", func() bool { return len(p.origin.Differences(p.key, c)) == 0 })
		c.CheckViolations(p.t)
	}
}

// one holds that the origin has seen one stream, ever.
func (p *tlsPair) one() {
	p.t.Helper()
	if n := p.origin.Counts(); n.Streams != 1 || n.Open != 1 {
		p.t.Errorf("the origin saw %d streams, and %d are open: expected that of the owner alone", n.Streams, n.Open)
	}
}

// knock shakes hands at a peer port that has a certificate of an authority, and
// returns that certificate. What it shows of itself is one of the authority of; nil
// for nothing.
func knock(t *testing.T, address string, authority, of *xdstest.Authority) (*x509.Certificate, error) {
	t.Helper()
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	cfg.RootCAs.AppendCertsFromPEM(authority.PEM)
	if of != nil {
		cert, err := tls.X509KeyPair(of.Issue("someone"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	d := tls.Dialer{Config: cfg}
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Only what the server says next tells a client whether it was let in.
	if err := conn.SetDeadline(time.Now().Add(xdstest.Patience)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], err
}

// reissue gives a node a new certificate of an authority, and takes those of others, too.
func (p *place) reissue(a *xdstest.Authority, taken ...*xdstest.Authority) {
	p.t.Helper()
	var all []byte
	for _, one := range taken {
		all = append(all, one.PEM...)
	}
	replace(p.t, p.files.CAFile, all)
	cert, key := a.Issue("127.0.0.1", p.name)
	replace(p.t, p.files.CertFile, cert)
	replace(p.t, p.files.KeyFile, key)
}

// TestPeerTLS: nodes that show one another certificates of the tier's authority are
// one: the origin sees one stream. New certificates, of another authority, end no
// stream, and are shown and asked for by the next connection (K4). What stands on an
// authority that is withdrawn is closed, and opened anew with what counts now.
func TestPeerTLS(t *testing.T) {
	t.Parallel()
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	p := newTLSPair(t, old)
	p.start(xdstest.Patience)
	p.converged()
	p.one()

	_, before := p.owner.way.Connections()
	for _, one := range []*place{p.owner, p.follower} {
		one.reissue(next, old, next)
	}
	for _, one := range []*place{p.owner, p.follower} {
		if cert, err := knock(t, one.PeerAddr(), next, next); err != nil || cert.Issuer.CommonName != "next" {
			t.Errorf("a new connection with node %s: %v, and it shows %+v", one.name, err, cert)
		}
	}
	p.set(1500 * time.Millisecond)
	p.converged()
	if _, ever := p.owner.way.Connections(); ever != before {
		t.Errorf("%d connections to the owner became %d", before, ever)
	}

	for _, one := range []*place{p.owner, p.follower} {
		replace(t, one.files.CAFile, next.PEM)
	}
	for _, one := range []*place{p.owner, p.follower} {
		if _, err := knock(t, one.PeerAddr(), next, old); err == nil {
			t.Errorf("node %s takes a certificate of the old authority", one.name)
		}
	}
	xdstest.Eventually(t, "a new connection to the owner", func() bool {
		_, ever := p.owner.way.Connections()
		return ever > before
	})
	p.set(2 * time.Second)
	p.converged()
	p.one()
}

// TestPeerTLSRefused: a node that shows no certificate of the tier's authority is not
// let in. It serves its clients from the origin itself, and follows the owner once it
// has a good one.
func TestPeerTLSRefused(t *testing.T) {
	t.Parallel()
	tier, other := xdstest.NewAuthority(t, "tier"), xdstest.NewAuthority(t, "other")
	for name, of := range map[string]*xdstest.Authority{"of another authority": other, "none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTLSPair(t, tier)
			if of != nil {
				ca := p.follower.files.CAFile
				p.follower.dir = t.TempDir()
				p.follower.rotate(of)
				p.follower.files.CAFile = ca // it knows the others, and they do not know it
			} else {
				p.follower.files = config.TLS{}
			}
			p.start(time.Second)
			p.converged()
			p.set(2 * time.Second)
			p.converged()
			if n := p.origin.Counts(); n.Open != 2 {
				t.Errorf("the origin has %d streams, expected one of each node", n.Open)
			}
			if _, err := knock(t, p.owner.PeerAddr(), tier, of); err == nil {
				t.Error("it was let in")
			}
			if _, ever := p.owner.way.Connections(); ever == 0 {
				t.Error("the node has never tried, so this test shows nothing")
			}
			if of == nil {
				return
			}
			p.follower.rotate(tier)
			xdstest.Eventually(t, "the node follows the owner", func() bool { return p.origin.Counts().Open == 1 })
			p.set(3 * time.Second)
			p.converged()
		})
	}
}

// TestPeerWorkloadAPI: nodes take one another by SPIFFE ids of the tier, with what a
// Workload API says. When it knows a new authority as well no stream ends; what stands
// on one that is withdrawn is closed, and opened anew. Who has another id is refused
// (K4).
func TestPeerWorkloadAPI(t *testing.T) {
	t.Parallel()
	old, next := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next")
	api := xdstest.NewWorkloadAPI(t)
	api.Set("spiffe://tier.test/node", old, nil)
	p := newTLSPair(t, old)
	for _, one := range []*place{p.owner, p.follower} {
		one.files = config.TLS{Certificates: config.Certificates{WorkloadAPI: api.Address()}, SPIFFEIDs: []string{"spiffe://tier.test/node"}}
	}
	p.start(xdstest.Patience)
	p.converged()
	p.one()
	shows := func(of *xdstest.Authority, id string) error {
		cfg := of.ClientTLS(of, id)
		cfg.InsecureSkipVerify, cfg.NextProtos = true, []string{"h2"} // it is about the client
		conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", p.owner.PeerAddr())
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(xdstest.Patience)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	}
	if err := shows(old, "spiffe://tier.test/node"); err != nil {
		t.Errorf("a node of the tier is refused: %v", err)
	}
	for _, id := range []string{"spiffe://tier.test/other", "spiffe://other.test/node", "node"} {
		if shows(old, id) == nil {
			t.Errorf("%s is let in", id)
		}
	}

	_, before := p.owner.way.Connections()
	api.Set("spiffe://tier.test/node", next, nil, old)
	xdstest.Eventually(t, "the new authority is trusted, too", func() bool { return shows(next, "spiffe://tier.test/node") == nil })
	if err := shows(old, "spiffe://tier.test/node"); err != nil {
		t.Errorf("a node with a certificate from before is refused: %v", err)
	}
	p.set(2 * time.Second)
	p.converged()
	p.one()
	if _, ever := p.owner.way.Connections(); ever != before {
		t.Errorf("%d connections to the owner became %d", before, ever)
	}

	api.Set("spiffe://tier.test/node", next, nil)
	xdstest.Eventually(t, "the old authority is trusted no more", func() bool { return shows(old, "spiffe://tier.test/node") != nil })
	xdstest.Eventually(t, "a new connection to the owner", func() bool {
		_, ever := p.owner.way.Connections()
		return ever > before
	})
	p.set(3 * time.Second)
	p.converged()
	p.one()
}
