package hostile

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// operatorToken is what operators have, beside a certificate.
const operatorToken = "operator-0123456789abcdef"

// TestAttacksOnOperators attacks the operators' port where it is open to others: behind
// TLS, certificates and a token.
func TestAttacksOnOperators(t *testing.T) {
	authority := xdstest.NewAuthority(t, "operators")
	of := setup{Operators: t.TempDir()}
	authority.WriteFiles(of.Operators, "127.0.0.1")
	if err := os.WriteFile(filepath.Join(of.Operators, "token"), []byte(operatorToken), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, of)
	s.operators = authority.ClientTLS(authority, "alice")
	for _, a := range []attack{
		{name: "operators' port: wrong certificates", run: func(t *testing.T, s *stage) { operatorCertificates(t, s, authority) }},
		{name: "operators' port: wrong tokens", run: wrongTokens},
		{name: "operators' port: tricks with paths and methods", run: pathTricks},
		{name: "operators' port: orders of other sites", run: ordersOfSites},
		{name: "operators' port: large requests", run: largeOrders},
		{name: "operators' port: many slow connections", run: slowOperators},
	} {
		s.withstands(t, a)
	}
}

// operatorDial is a connection with a good certificate.
func (s *stage) operatorDial(t *testing.T) net.Conn {
	t.Helper()
	c, err := (&tls.Dialer{Config: s.operators}).DialContext(t.Context(), "tcp", s.Admin)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(xdstest.Patience))
	return c
}

// operatorTLS is for a handshake by hand.
func (s *stage) operatorTLS() *tls.Config {
	cfg := s.operators.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(s.Admin)
	return cfg
}

// raw sends a request as it is, and returns the status and the answer, 0 for none.
func (s *stage) raw(t *testing.T, request string) (int, string) {
	t.Helper()
	c := s.operatorDial(t)
	defer c.Close()
	_, _ = io.WriteString(c, request) // the server may have enough before the end
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// httpRequest is a request with headers, each with its line end.
func httpRequest(method, target, headers string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + headers + "\r\n"
}

// tellsNothing fails the test if an answer holds something that is for operators.
func tellsNothing(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{operatorToken, theKey, "goroutine", "xdsrelay_"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is told %q", what, secret)
		}
	}
}

// operatorCertificates comes with the token, but without a good certificate.
func operatorCertificates(t *testing.T, s *stage, authority *xdstest.Authority) {
	expired := authority.ClientTLS(nil)
	late := xdstest.PairOf(t, []string{"alice"}, func(hosts ...string) (cert, key []byte) {
		return authority.IssueUntil(time.Now().Add(-time.Minute), hosts...)
	})
	expired.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &late, nil }
	old := s.operators.Clone()
	old.MaxVersion = tls.VersionTLS12
	defer func(before *tls.Config) { s.operators = before }(s.operators)
	for name, with := range map[string]*tls.Config{
		"no certificate": authority.ClientTLS(nil), "one of another authority": authority.ClientTLS(xdstest.NewAuthority(t, "operators"), "alice"),
		"one that has expired": expired, "TLS 1.2": old,
	} {
		for range size(3, 100) {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: with}, Timeout: xdstest.Patience}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Admin+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+operatorToken)
			if res, err := client.Do(req); err == nil {
				_ = res.Body.Close()
				t.Fatalf("an operator with %s is let in", name)
			}
		}
	}
	// Without TLS.
	c, err := net.DialTimeout("tcp", s.Admin, xdstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(xdstest.Patience))
	_, _ = io.WriteString(c, httpRequest("GET", "/debug/keys", "Authorization: Bearer "+operatorToken+"\r\n"))
	text, _ := io.ReadAll(c)
	tellsNothing(t, "plaintext", string(text))
}

// wrongTokens has a certificate, and no token or one that is nearly right.
func wrongTokens(t *testing.T, s *stage) {
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+password))
	}
	for i := range size(1, 20) {
		for _, header := range []string{
			"", "Authorization: Bearer", "Authorization: Bearer ", "Authorization: " + operatorToken,
			fmt.Sprintf("Authorization: Bearer %s%d", operatorToken, i), "Authorization: Bearer " + operatorToken[:len(operatorToken)-1],
			"Authorization: Bearer " + strings.ToUpper(operatorToken), "Authorization: Bearer " + operatorToken + "\x01",
			"Authorization: Bearer " + strings.Repeat("x", 8<<10), "Authorization: " + basic(""), "Authorization: " + basic("wrong"),
			"Cookie: token=" + operatorToken, "X-Token: " + operatorToken,
			"Authorization: Bearer wrong\r\nAuthorization: Bearer " + operatorToken,
		} {
			if header != "" {
				header += "\r\n"
			}
			for _, path := range []string{"/", "/debug/keys", "/metrics", "/debug/pprof/goroutine?debug=1", "/debug/keys?token=" + operatorToken, "/none"} {
				code, text := s.raw(t, httpRequest("GET", path, header))
				if code != http.StatusUnauthorized && code != http.StatusBadRequest {
					t.Errorf("GET %s with %.60q: %d", path, header, code)
				}
				tellsNothing(t, path, text)
			}
			if code, _ := s.raw(t, httpRequest("POST", "/drain", header+"X-Xdsrelay-Request: 1\r\nContent-Length: 0\r\n")); code != http.StatusUnauthorized && code != http.StatusBadRequest {
				t.Errorf("POST /drain with %.60q: %d", header, code)
			}
		}
	}
}

// pathTricks tries to reach what is behind the token by the paths of health, which go
// without, and by unusual methods.
func pathTricks(t *testing.T, s *stage) {
	for _, target := range []string{
		"//debug/keys", "/./debug/keys", "/healthz/../debug/keys", "/healthz/..%2fdebug/keys", "/healthz/%2e%2e/debug/keys", "/healthz//debug/keys",
		"/healthz/debug/keys", "/healthz;/debug/keys", "/healthz%00/debug/keys", "/healthz?/debug/keys", "/HEALTHZ/../debug/keys", "/readyz/..//metrics",
		"/%68ealthz/../metrics", "http://127.0.0.1/debug/keys", "http://127.0.0.1/healthz/../debug/keys", "\\debug\\keys", "/debug/keys#/healthz", "*",
		"/debug/pprof/../keys", "/debug/pprof/%2e%2e/keys", "/" + strings.Repeat("../", 100) + "debug/keys", "/debug/keys/" + strings.Repeat("a/", 2000),
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "TRACE", "PUT", "get", "PROPFIND"} {
			_, text := s.raw(t, httpRequest(method, target, "X-Original-URL: /debug/keys\r\nX-Forwarded-For: 127.0.0.1\r\n"))
			tellsNothing(t, method+" "+target, text)
		}
	}
	// Two requests in one, where a proxy in front may see one.
	for _, smuggled := range []string{
		httpRequest("POST", "/healthz", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\nGET /debug/keys HTTP/1.1\r\nHost: x\r\n\r\n",
		httpRequest("GET", "/healthz", "Content-Length: 3\r\nContent-Length: 50\r\n") + "abcGET /debug/keys HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /debug/keys HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
	} {
		c := s.operatorDial(t)
		_, _ = io.WriteString(c, smuggled)
		text, _ := io.ReadAll(c)
		_ = c.Close()
		tellsNothing(t, "a second request", string(text))
	}
}

// ordersOfSites does what a web site can make the browser of an operator do, who has a
// certificate and whose browser knows the token.
func ordersOfSites(t *testing.T, s *stage) {
	auth := "Authorization: Bearer " + operatorToken + "\r\n"
	for _, headers := range []string{
		"", "Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n", "Content-Type: text/plain\r\n",
		"Origin: https://evil.example\r\nX-Xdsrelay-Request: 1\r\n", "Sec-Fetch-Site: same-site\r\nX-Xdsrelay-Request: 1\r\n",
	} {
		for _, path := range []string{"/drain", "/removals/approve?key=" + theKey} {
			if code, text := s.raw(t, httpRequest("POST", path, auth+headers+"Content-Length: 0\r\n")); code != http.StatusForbidden && code != http.StatusNotFound {
				t.Errorf("POST %s with %q: %d %s", path, headers, code, text)
			}
		}
	}
	if code, _ := s.raw(t, httpRequest("GET", "/drain", auth)); code == http.StatusOK {
		t.Error("GET /drain is an order")
	}
}

// largeOrders sends headers and bodies that are too large, with and without the token.
func largeOrders(t *testing.T, s *stage) {
	for _, auth := range []string{"", "Authorization: Bearer " + operatorToken + "\r\n"} {
		many := strings.Repeat("X-A: b\r\n", 20_000)
		for _, headers := range []string{"X-Fill: " + strings.Repeat("h", 1<<20) + "\r\n", many} {
			if code, _ := s.raw(t, httpRequest("GET", "/debug/keys", auth+headers)); code != http.StatusRequestHeaderFieldsTooLarge && code != 0 {
				t.Errorf("large headers: %d", code)
			}
		}
		if code, _ := s.raw(t, httpRequest("GET", "/"+strings.Repeat("p", 1<<20), auth)); code != http.StatusRequestHeaderFieldsTooLarge && code != 0 {
			t.Errorf("a large path: %d", code)
		}
		body := strings.Repeat(`{"node":`, size(1<<17, 1<<22))
		for _, path := range []string{"/tier/explain", "/client_status", "/v3/discovery:client_status"} {
			code, text := s.raw(t, httpRequest("POST", path, fmt.Sprintf("%sX-Xdsrelay-Request: 1\r\nContent-Length: %d\r\n", auth, len(body)))+body)
			if code != 0 && (code < 400 || code >= 500) {
				t.Errorf("a large body for %s: %d %.200s", path, code, text)
			}
			if auth == "" {
				tellsNothing(t, path, text)
			}
		}
	}
}

// slowOperators opens many connections and says next to nothing on them. Operators
// get in meanwhile.
func slowOperators(t *testing.T, s *stage) {
	var all []net.Conn
	// From an address of its own, since each has few connections: beyond those they are
	// closed.
	dialer := &net.Dialer{Timeout: xdstest.Patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for i := range size(60, 1500) {
		plain, err := dialer.DialContext(t.Context(), "tcp", s.Admin)
		if err != nil {
			t.Fatal(err)
		}
		_ = plain.SetDeadline(time.Now().Add(xdstest.Patience))
		c := plain
		if i%3 == 0 {
			_, _ = c.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
		} else {
			handshake := tls.Client(plain, s.operatorTLS())
			if err := handshake.HandshakeContext(t.Context()); err != nil {
				if len(all) < 40 {
					t.Fatalf("connection %d: %v", len(all)+1, err)
				}
				_ = plain.Close()
				continue
			}
			c = handshake
			_, _ = io.WriteString(c, "POST /tier/explain HTTP/1.1\r\nHo")
			if i%3 == 1 {
				_, _ = io.WriteString(c, "st: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
			}
		}
		all = append(all, c)
	}
	if text := s.get(t, "/debug/keys"); !strings.Contains(text, content.KeyName(0)) {
		t.Errorf("an operator is told %q", text)
	}
	for _, c := range all {
		if *full {
			_ = c.SetReadDeadline(time.Now().Add(xdstest.Patience))
			if _, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Error("a slow connection is still open")
			}
		}
		_ = c.Close()
	}
}
