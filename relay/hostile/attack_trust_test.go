package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// trust are attacks on what is not for everybody, and how secrets get where they are seen.
var trust = []struct {
	name string
	run  func(t *testing.T, v *vault)
}{
	{"a client that spells an identity", spelledIdentity},
	{"secrets in broken files", brokenFiles},
	{"secrets under names of all kinds", namedSecrets},
	{"a stranger that writes to Redis", foreignWriter},
}

// TestDefaultsKeepSecrets is [TestDefaults] for a node that has what is not for everybody.
func TestDefaultsKeepSecrets(t *testing.T) {
	needQuiet(t)
	v := newVault(t)
	for _, a := range trust {
		if !v.endures(t, attack{name: a.name, run: func(t *testing.T, _ *stage) { a.run(t, v) }}) {
			return
		}
	}
}

// spelledIdentity claims, without a certificate, in each way to be what the control plane
// for secrets knows the victim by.
func spelledIdentity(t *testing.T, v *vault) {
	secret := func(address, id, cluster string, how credentials.TransportCredentials) string {
		t.Helper()
		c := xdstest.Dial(t, address, grpc.WithTransportCredentials(how))
		defer c.Close()
		c.Node = xdstest.Node(id, cluster)
		s := c.Open(xdstest.Variant{Delta: true})
		s.Subscribe(resource.SecretURL, "s")
		f := s.RecvType(t, resource.SecretURL)
		s.Ack(f)
		var m tlsv3.Secret
		if r, ok := f.Get("s"); !ok || r.Decode(&m) != nil {
			t.Fatalf("%s/%s: %s", id, cluster, f)
		}
		return m.GetTlsCertificate().GetCertificateChain().GetInlineString()
	}
	if got := secret(v.ports.Mesh, "envoy-1", "web", credentials.NewTLS(v.mesh.ClientTLS(v.mesh, victim))); got != ofVictim {
		t.Fatalf("the victim got %q", got)
	}
	meant := <-v.meant
	suffix := strings.TrimPrefix(meant, "xdsrelay/")
	for _, claim := range []string{meant, suffix, "web/" + victim, "web~" + victim, "web~~" + victim, "/" + suffix, victim, suffix + "/", "web%7E" + victim} {
		for _, node := range [][2]string{{"envoy-2", claim}, {claim, "web"}, {claim, claim}} {
			if got := secret(v.XDS, node[0], node[1], insecure.NewCredentials()); got == ofVictim {
				t.Errorf("a client without a certificate, id %q and cluster %q, got the secret of another", node[0], node[1])
			}
		}
	}
	v.keepsSecret(t, "envoy-1", ofVictim)
}

// runtimeFile is a file of the directory that can be used.
const runtimeFile = "type_url: type.googleapis.com/envoy.service.runtime.v3.Runtime\nresources:\n" +
	"- \"@type\": type.googleapis.com/envoy.service.runtime.v3.Runtime\n  name: rt\n  layer: {POSTGRES_DSN: \"host=db " + inResource + "\", x-functions-key: " + inResource +
	", url: \"https://blob.example/a?sv=2024&sig=" + inResource + "&se=1\", passwordProfile: {value: " + inResource + "}}\n"

// brokenFiles puts files with secrets into the directory that cannot be used, and links out
// of it.
func brokenFiles(t *testing.T, v *vault) {
	const head = "type_url: " + resource.SecretURL + "\nresources:\n- \"@type\": " + resource.SecretURL + "\n"
	files := map[string]string{
		"value.yaml": head + "  name: a\n  tls_certificate: {private_key: " + inFile + "}\n", "scalar.yaml": head + "  name: a\n  tls_certificate: " + inFile + "\n",
		"duration.yaml": "resources:\n- \"@type\": " + resource.ClusterURL + "\n  connect_timeout: " + inFile + "\n", "field.yaml": head + "  " + inFile + ": a\n",
		"twice.yaml": inFile + ": a\n" + inFile + ": b\n", "alias.yaml": "resources: *" + inFile + "\n", "tag.yaml": "resources: !" + inFile + "\n",
		"colon.yaml": "resources:\n- a: b: " + inFile + "\n", "plain.yaml": inFile + "\n", "header.yaml": "a: |" + inFile + "\n  b\n",
		"type.json": `{"resources":[{"@type":"type.googleapis.com/` + inFile + `"}]}`, "token.json": `{"resources": ` + inFile + `}`, "end.json": `{"versionInfo": "` + inFile,
		"bytes.json":  `{"resources":[{"@type":"` + resource.SecretURL + `","name":"a","tlsCertificate":{"privateKey":{"inlineBytes":"?` + inFile + `"}}}]}`,
		"field.txtpb": inFile + ": 1\n", "type.txtpb": "resources { [type.googleapis.com/" + inFile + "] {} }\n", "wrong.pb": inFile + "\xff",
	}
	foreign := filepath.Join(t.TempDir(), "shadow")
	v.write(t, foreign, "root:"+inFile+":1:\n")
	if err := os.Symlink(foreign, filepath.Join(v.Files, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		v.write(t, filepath.Join(v.Files, name), text)
	}
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: v.XDS, Variant: xdstest.Delta, Node: xdstest.Node("reads-files", theKey)})
	c.Subscribe(xdstest.RuntimeType, "rt")
	c.WaitHeld(t, xdstest.RuntimeType, "rt")
	var shown string
	xdstest.Eventually(t, "an error for each file", func() bool {
		shown = v.get(t, "/debug/upstreams")
		for name := range files {
			if !strings.Contains(shown, name) {
				return v.dead()
			}
		}
		return strings.Contains(shown, "link.yaml")
	})
	v.keepsSecret(t, "reads-files", inFile)
	c.Close()
}

// named are extension configurations with secrets under names of all kinds, and in
// messages that have no names.
func named() (all []proto.Message) {
	fields, err := structpb.NewStruct(map[string]any{
		"x-functions-key": inResource, "MYSQL_DSN": inResource, "passwordProfile": map[string]any{"value": inResource}, "url": "https://blob.example/a?sig=" + inResource,
		"env": []any{map[string]any{"name": "DB_DSN", "value": inResource}},
	})
	if err != nil {
		panic(err)
	}
	for i, m := range []proto.Message{fields, wrapperspb.String(inResource), wrapperspb.Bytes([]byte(inResource)), structpb.NewStringValue(inResource)} {
		all = append(all, xdstest.Extension(fmt.Sprintf("named-%d", i), m))
	}
	return all
}

// namedSecrets holds resources with such secrets, and rejects others for reasons with them.
func namedSecrets(t *testing.T, v *vault) {
	const typ = xdstest.ExtensionConfigType
	reason := "x-functions-key: " + inResource + "\nPOSTGRES_DSN=" + inResource + " https://blob.example/a?sv=1&sig=" + inResource +
		` {"passwordProfile": {"value": "` + inResource + `"}}`
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: v.XDS, Variant: xdstest.Delta, Node: xdstest.Node("holds-secrets", theKey)})
	c.Subscribe(xdstest.RuntimeType, "rt")
	var names []string
	for i := range named() {
		names = append(names, fmt.Sprintf("named-%d", i))
	}
	c.Subscribe(typ, names...)
	c.WaitHeld(t, xdstest.RuntimeType, "rt")
	c.WaitHeld(t, typ, names...)
	for name, held := range c.Held(typ) {
		if !strings.Contains(string(held.Body), inResource) {
			t.Errorf("%s came without its secret, so that nothing is tried", name)
		}
	}
	r := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: v.XDS, Variant: xdstest.SotW, Node: xdstest.Node("rejects", theKey), Nack: func(*xdstest.Frame) string { return reason }})
	r.Subscribe(typ, names...)
	xdstest.Eventually(t, "the rejection to be shown", func() bool {
		return v.dead() || strings.Contains(v.get(t, "/api/v1/clients"), "blob.example")
	})
	xdstest.Eventually(t, "the last known good state to be written", func() bool {
		files, _ := filepath.Glob(filepath.Join(v.LastGood, "*"))
		return v.dead() || len(files) > 0
	})
	all := v.keepsSecret(t, "holds-secrets", inResource)
	c.Close()
	r.Close()
	redacted := 0
	for _, text := range all {
		redacted += strings.Count(text, "[redacted]")
	}
	if redacted == 0 {
		t.Error("nothing that is shown is redacted, so that the secrets were not there")
	}
}

// stranger begins the names of members that are none.
const stranger = "stranger-"

// foreignWriter writes members that are none to Redis, and heads of keys, again and again:
// what it names gets no connection, and the clients of both nodes are served as before.
func foreignWriter(t *testing.T, v *vault) {
	server := xdstest.NewStranger(t)
	for round := range size(6, 200) {
		for i := range 30 { // of so many, some would own the keys
			name := fmt.Sprintf(stranger+"%d", i)
			v.redis.Do("HSET", "xdsrelay:{members}", name, fmt.Sprintf(`99999999999999 60000 1 i {"name":%q,"peer":%q}`, name, server.Addr()))
		}
		v.redis.Do("PUBLISH", "xdsrelay:members", stranger)
		for _, found := range v.redis.Do("KEYS", "xdsrelay:*:head").([]any) {
			pairs := v.redis.Do("HGETALL", found).([]any)
			for i := 0; i < len(pairs); i += 2 {
				field := pairs[i]
				if field == "epoch" {
					continue
				}
				epoch, rest, _ := strings.Cut(fmt.Sprint(pairs[i+1]), " ")
				generation, _, _ := strings.Cut(rest, " ")
				head := fmt.Sprintf(`%s %s%d {"version":"x","digest":"%032x","owner":"`+stranger+`1","at":1}`, epoch, generation, round%10, round)
				v.redis.Do("HSET", found, field, head)
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-v.process.ended:
			return
		}
	}
	c := open(t, v.dial(t), deltaMethod)
	_ = c.send(hello("x", theKey, xdstest.ClusterType, "*"))
	c.respond(t, 1, &discoveryv3.DeltaDiscoveryResponse{})
	c.onlyOf(t, theKey, true)
	c.close()
	d := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: v.second.XDS, Variant: xdstest.Delta, Node: xdstest.Node("on-b", theKey)})
	d.Subscribe(xdstest.ClusterType)
	xdstest.Eventually(t, "the other node to serve", func() bool { return len(d.Held(xdstest.ClusterType)) == spec.Clusters })
	d.Close()
	if text := v.get(t, "/tier/nodes?format=json"); strings.Contains(text, server.Addr()) {
		t.Errorf("a stranger is a member: %s", text)
	}
	server.CheckAlone(t)
	v.keepsSecret(t, "x", peerToken)
	for i := range 30 {
		v.redis.Do("HDEL", "xdsrelay:{members}", fmt.Sprintf(stranger+"%d", i))
	}
}
