package secure_test

import (
	"crypto/tls"
	"net"
	"testing"

	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
)

// BenchmarkHandshake is a full handshake with certificates on both sides, and one that a ticket
// resumes. Client and server are in the figure.
func BenchmarkHandshake(b *testing.B) {
	for _, resumed := range []bool{false, true} {
		name := "full"
		if resumed {
			name = "resumed"
		}
		b.Run(name, func(b *testing.B) {
			a := xdstest.NewAuthority(b, "a")
			var cfg secure.Config
			cfg.CertFile, cfg.KeyFile, cfg.CAFile = a.WriteFiles(b.TempDir(), "127.0.0.1")
			server, err := secure.NewServer(cfg, new(logs).logger())
			if err != nil {
				b.Fatal(err)
			}
			client := a.ClientTLS(a, "web")
			client.NextProtos, client.ServerName = []string{"h2"}, "127.0.0.1"
			if resumed {
				client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					raw, err := l.Accept()
					if err != nil {
						return
					}
					if conn, _, _, err := server.Handshake(raw); err == nil {
						_, _ = conn.Write([]byte("x"))
						_ = conn.Close()
					}
				}
			}()
			defer func() { _ = l.Close(); <-done }()
			connect := func() {
				c, err := tls.Dial("tcp", l.Addr().String(), client)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Read(make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				if c.ConnectionState().DidResume != resumed && b.N > 1 {
					b.Fatal("resumed when it should not be, or the reverse")
				}
				_ = c.Close()
			}
			if resumed {
				client2 := client.Clone()
				c, err := tls.Dial("tcp", l.Addr().String(), client2)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}
			b.ReportAllocs()
			for b.Loop() {
				connect()
			}
		})
	}
}
