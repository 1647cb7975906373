package hostile

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// Secrets that are planted; the texts have no sign of their own that they are secret.
const (
	mark       = "canaryWvu" // begins each of them
	ofVictim   = mark + "-of-the-victim"
	inFile     = mark + "-in-a-file"
	inResource = mark + "-in-a-resource"
	peerToken  = mark + "-token-of-the-tier"
	// victim is the identity of a client with a certificate.
	victim = "spiffe://corp/web"
)

// private is what a node with the shipped limits has besides that strangers try to get at:
// a port for certificates, a control plane for secrets, which goes by the node id, a
// directory as another control plane, a tier, and a folder for what it last knew.
type private struct {
	Name     string // of the node
	Secrets  string // address of the control plane
	Files    string // its directory
	Redis    string // URL
	Token    string // file
	LastGood string // folder
	Log      string // file
}

// add makes it part of a configuration. The certificates are those of folder.
func (p *private) add(cfg *config.Config, folder string) {
	cfg.Node.Name = p.Name
	secrets := config.NamedUpstream{Name: "secrets", Types: []string{"Secret", "TypedExtensionConfig"}, Upstream: config.DefaultUpstream()}
	secrets.Addresses = []string{p.Secrets}
	files := config.NamedUpstream{Name: "files", Types: []string{"Runtime"}, Upstream: config.DefaultUpstream()}
	files.Directory = p.Files
	cfg.Upstreams = append(cfg.AllUpstreams(), secrets, files)
	cfg.Tier.Redis.URL, cfg.Tier.Peer.Address, cfg.Tier.Peer.TokenFile = p.Redis, "127.0.0.1:0", p.Token
	cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory = config.StoreDirectory, p.LastGood
	mesh := config.NamedListener{Name: "mesh", Listener: config.DefaultListener()}
	mesh.Address = "127.0.0.1:0"
	mesh.TLS.CertFile, mesh.TLS.KeyFile, mesh.TLS.CAFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), filepath.Join(folder, "ca.pem")
	cfg.Listeners, cfg.Authorization.Rules = append(cfg.AllListeners(), mesh), authorize.Any()
	if err := cfg.Log.Level.UnmarshalText([]byte("debug")); err != nil {
		panic(err) // not for a word that is written here
	}
}

// vault is a stage of two nodes, the first of which has the good clients.
type vault struct {
	*stage
	private

	secrets *xdstest.ControlPlane
	redis   *redistest.Server
	mesh    *xdstest.Authority
	meant   chan string // node ids by which the control plane for secrets knows the victim
	second  ports
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{mesh: xdstest.NewAuthority(t, "mesh"), redis: redistest.Start(t, redistest.Config{}), meant: make(chan string, 16)}
	v.secrets = xdstest.NewLenientControlPlane(t, cachev3.IDHash{}.ID)
	v.secrets.OnRequest(func(_ int64, m proto.Message) {
		var node *corev3.Node
		switch r := m.(type) {
		case *discoveryv3.DiscoveryRequest:
			node = r.GetNode()
		case *discoveryv3.DeltaDiscoveryRequest:
			node = r.GetNode()
		}
		if node == nil {
			return
		}
		if _, err := v.secrets.Snapshots.GetSnapshot(node.GetId()); err == nil {
			return
		}
		content := "for others"
		if node.GetMetadata().GetFields()["xdsrelay.identity"].GetStringValue() == victim {
			content = ofVictim
			v.meant <- node.GetId()
		}
		all := append([]proto.Message{xdstest.Secret("s", content, "key")}, named()...)
		v.secrets.SetSnapshot(t, node.GetId(), "1", all...)
	})
	tls, dir := t.TempDir(), t.TempDir()
	v.mesh.WriteFiles(tls, "127.0.0.1")
	v.private = private{
		Name: "a", Secrets: v.secrets.Addr(), Files: filepath.Join(dir, "files"), Redis: v.redis.URL(), Token: filepath.Join(dir, "token"),
		LastGood: filepath.Join(dir, "last"), Log: filepath.Join(dir, "log"),
	}
	for _, d := range []string{v.Files, v.LastGood} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	v.write(t, v.Token, peerToken)
	v.write(t, filepath.Join(v.Files, "good.yaml"), runtimeFile)
	of := setup{Defaults: true, Memory: chartMemory(t), Private: &v.private, Mesh: tls}
	v.stage = newStage(t, of)
	second, private := of, v.private
	private.Name, private.LastGood, private.Log = "b", filepath.Join(dir, "last-b"), filepath.Join(dir, "log-b")
	second.Private, second.Origin = &private, v.origin.Addr()
	if err := os.Mkdir(private.LastGood, 0o700); err != nil {
		t.Fatal(err)
	}
	v.second, _ = startChild(t, second)
	return v
}

func (v *vault) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// log is what the node has logged so far.
func (v *vault) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(v.private.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var hrefs = regexp.MustCompile(`href="([^"]*)"`)

// shows is all that the node shows and keeps, by where: the pages of operators, the API,
// the log and the files of the last known good state.
func (v *vault) shows(t *testing.T, client string) map[string]string {
	t.Helper()
	all := map[string]string{"the log": v.log(t)}
	for _, m := range hrefs.FindAllStringSubmatch(v.get(t, "/"), -1) {
		path := strings.NewReplacer("=KEY", "="+theKey, "key=NAME", "key="+theKey, "client=NAME", "client="+client).Replace(html.UnescapeString(m[1]))
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "/pprof/") {
			continue // elsewhere, or of the code
		}
		all[path] = v.get(t, path)
		if strings.HasPrefix(path, "/debug/") && !strings.Contains(path, "?") {
			all[path+"?format=json"] = v.get(t, path+"?format=json")
		}
	}
	if len(all) < 20 {
		t.Errorf("the node shows %d pages, expected the index to list more", len(all))
	}
	next := regexp.MustCompile(`"next": ?"([^"]+)"`)
	for page := ""; ; {
		path := "/api/v1/dump?key=" + theKey + "&page=" + url.QueryEscape(page)
		all[path] = v.get(t, path)
		m := next.FindStringSubmatch(all[path])
		if m == nil {
			break
		}
		page = m[1]
	}
	all["client status"] = v.get(t, "/api/v1/client?resources=10000&client="+client)
	_, all["client status discovery"] = post(t, "http://"+v.Admin+"/v3/discovery:client_status", strings.NewReader("{}"), "X-Xdsrelay-Request", "1")
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer unpack.Close()
	err = filepath.WalkDir(v.LastGood, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // replaced at this moment
		}
		all[path] = string(text)
		for rest := text; ; { // what is compressed
			i := bytes.Index(rest, []byte{0x28, 0xb5, 0x2f, 0xfd})
			if i < 0 {
				return err
			}
			plain, _ := unpack.DecodeAll(rest[i:], nil)
			all[path] += string(plain)
			rest = rest[i+1:]
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// keepsSecret holds that a secret is nowhere in what the node shows, neither as it is nor
// in base64 or hex.
func (v *vault) keepsSecret(t *testing.T, client, secret string) map[string]string {
	t.Helper()
	forms := []string{secret, hex.EncodeToString([]byte(secret))}
	for shift := range 3 { // whatever is before it
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), secret...))
		forms = append(forms, encoded[(shift*8+5)/6:(shift+len(secret))*8/6])
	}
	all := v.shows(t, client)
	for where, text := range all {
		for _, form := range forms {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s shows a secret: …%q…", where, text[max(0, i-200):min(len(text), i+60)])
			}
		}
	}
	return all
}
