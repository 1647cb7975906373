package floor

import (
	"crypto/tls"
	"os"
	"sync/atomic"
	"testing"

	"xdsrelay/bench/certs"
	"xdsrelay/bench/fleet"
)

// TestTLS: clients of a floor with TLS show certificates of their own, and resume their sessions
// when they reconnect if they keep tickets.
func TestTLS(t *testing.T) {
	for _, tickets := range []bool{false, true} {
		files, err := certs.Write(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := files.ServerConfig()
		if err != nil {
			t.Fatal(err)
		}
		var full, resumed atomic.Int64
		names := make(chan string, 100)
		cfg.VerifyConnection = func(s tls.ConnectionState) error {
			if s.DidResume {
				resumed.Add(1)
			} else {
				full.Add(1)
			}
			names <- s.PeerCertificates[0].URIs[0].String()
			return nil
		}
		d, _ := start(t, Config{Spec: spec, Delta: true, Sync: true, Transport: GRPC, TLS: cfg})
		clients := fleet.TLSFiles{CA: files.CA, CAKey: files.CAKey}
		own, err := clients.Config()
		if err != nil {
			t.Fatal(err)
		}
		authority, err := clients.Authority()
		if err != nil {
			t.Fatal(err)
		}
		f, err := fleet.New(fleet.Config{
			Addrs: []string{d.Addr()}, Clients: 4, Content: spec, Delta: true, TLS: own, Authority: authority, Tickets: tickets,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		if r, err := f.Connect(t.Context(), 0, fleet.Synced); err != nil || !r.Done {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := f.Storm(t.Context(), fleet.Storm{Versions: "warm"}); err != nil || !r.Done {
			t.Fatalf("%+v, %v", r, err)
		}
		want := [2]int64{8, 0}
		if tickets {
			want = [2]int64{4, 4}
		}
		if got := [2]int64{full.Load(), resumed.Load()}; got != want {
			t.Errorf("tickets: %v: full and resumed handshakes %v, expected %v", tickets, got, want)
		}
		close(names)
		different := make(map[string]int)
		for name := range names {
			different[name]++
		}
		if len(different) != 4 {
			t.Errorf("the clients are %v, expected four that show the same as before", different)
		}
	}
}

// TestNoCertificates: files that are missing are an error that names them.
func TestNoCertificates(t *testing.T) {
	if cfg, err := new(certs.Files).ServerConfig(); cfg != nil || err != nil {
		t.Errorf("without files: %v, %v", cfg, err)
	}
	files, err := certs.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.CA, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.ServerConfig(); err == nil {
		t.Error("an authority without a certificate is taken")
	}
	clients := fleet.TLSFiles{CA: files.CA, CAKey: files.CAKey}
	if _, err := clients.Authority(); err == nil {
		t.Error("clients have an authority without a certificate")
	}
}
