package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const repository = "../.."

// program is what `make build` has built.
const program = repository + "/bin/xdsrelay"

// check lets the program check a configuration, and returns what it says.
func check(t *testing.T, text string, env ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "config", "validate", "-c", file)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// checkConfig holds that the program takes a pod's configuration with the pod's
// environment, and that all files which it names are mounted.
func checkConfig(t *testing.T, text string, spec core.PodSpec) {
	t.Helper()
	var config map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Error(err)
		return
	}
	root := t.TempDir()
	move(config, func(file string) string {
		if !isMounted(spec, file) {
			t.Errorf("%s is not mounted", file)
		}
		return makeFile(t, root, file)
	})
	moved, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range []string{"10.1.2.3", "fd00::1"} {
		var env []string
		for _, e := range spec.Containers[0].Env {
			value := strings.ReplaceAll(e.Value, "$(POD_IP)", ip)
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				value = "redis://redis.example:6379"
				if strings.Contains(text, "redis-tls") {
					value = "rediss://redis.example:6379"
				}
			} else if e.ValueFrom != nil {
				value = "shop-xdsrelay-5c9f-x2x4z"
			}
			env = append(env, e.Name+"="+value)
		}
		if out, err := check(t, string(moved), env...); err != nil {
			t.Errorf("xdsrelay config validate: %v\n%s\nof\n%s", err, out, moved)
		}
	}
}

// move gives each absolute path in a configuration another one.
func move(config map[string]any, to func(string) string) {
	for name, value := range config {
		switch v := value.(type) {
		case string:
			if filepath.IsAbs(v) {
				config[name] = to(v)
			}
		case map[string]any:
			move(v, to)
		case []any:
			for _, item := range v {
				if section, ok := item.(map[string]any); ok {
					move(section, to)
				}
			}
		}
	}
}

// makeFile makes what a Secret or a ConfigMap would hold under a path.
func makeFile(t *testing.T, root, file string) string {
	t.Helper()
	place := filepath.Join(root, file)
	if filepath.Ext(file) == "" && !strings.HasPrefix(file, "/etc/xdsrelay/") {
		files, err := filepath.Abs(repository + "/deploy/examples/directory")
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	var text string
	switch filepath.Base(file) {
	case "tls.crt", "tls.key", "ca.crt":
		text = certificate(t)[filepath.Ext(file)]
	case "keys":
		text = "k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	default:
		text = strings.Repeat("secret", 6)
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return place
}

// certificate returns a certificate and its key, by the extensions of their files. It
// is made once, so that both fit.
var certificate = func() func(*testing.T) map[string]string {
	var made map[string]string
	return func(t *testing.T) map[string]string {
		t.Helper()
		if made != nil {
			return made
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"}, DNSNames: []string{"relay.example", "redis.example", "shop-xdsrelay-peers.mesh.svc", "shop-xdsrelay.mesh.svc"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		made = map[string]string{
			".crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			".key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		}
		return made
	}
}()
