package verify

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestPodsStart starts what the chart makes as a kubelet would: a tier of three relays
// with certificates from Secrets and a Redis that asks for a password and a certificate,
// and a relay in front of a directory in a ConfigMap. The files, the arguments and the
// environment are those of the manifests; the pods get ready by their probes, know one
// another, serve what the control plane has, take a changed ConfigMap, and end by
// themselves.
func TestPodsStart(t *testing.T) {
	for name, prefix := range map[string]string{"IPv4": "192.0.2.0/24", "IPv6": "2001:db8::/64"} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, prefix)
			spec, data := podOf(t, tierValues)
			maps.Copy(data, secrets(t))
			hosts := map[string]string{"redis.example": startRedis(t, n, data)}
			hosts["control-plane.example"] = startControlPlane(t, n).address
			var pods []*pod
			for i := range 3 {
				pods = append(pods, startPod(t, n, fmt.Sprintf("shop-xdsrelay-%d", i), spec, data, hosts))
			}
			for _, p := range pods {
				p.ready()
			}
			for _, p := range pods {
				p.eventually("does not see the others", func() bool {
					out, err := p.exec("nodes")
					return err == nil && strings.Contains(out, pods[0].name) && strings.Contains(out, pods[1].name) && strings.Contains(out, pods[2].name)
				})
				p.eventually("does not serve", func() bool { return strings.Contains(poll(p), `"web"`) })
			}
			_, changed := podOf(t, strings.Replace(tierValues, "config:\n", "config:\n  log: {level: debug}\n", 1))
			pods[1].change(changed)
			pods[1].eventually("does not take its new configuration", func() bool { return strings.Contains(pods[1].said(), `"fields":["log.level"]`) })
			pods[0].terminate()
			for _, p := range pods[1:] {
				p.ready()
				p.eventually("does not serve without the first", func() bool { return strings.Contains(poll(p), `"web"`) })
				p.terminate()
			}
		})
	}
}

// TestHelmTestRuns runs the pod of helm test next to a relay of a tier with TLS: it ends
// successfully, and fails if the relay has no TLS or Redis is unreachable.
func TestHelmTestRuns(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "192.0.2.0/24")
	text := strings.Replace(tierValues, "allowPlaintext: true\n", "tls: {secretName: certificates}\n", 1)
	text = strings.Replace(text, "ports: {rest: 18001}\n", "", 1)
	spec, data := podOf(t, text)
	maps.Copy(data, secrets(t))
	hosts := map[string]string{"redis.example": startRedis(t, n, data)}
	plaintext := startControlPlane(t, n).address
	hosts["control-plane.example"] = plaintext
	relay := startPod(t, n, "shop-xdsrelay-0", spec, data, hosts)
	relay.ready()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	test, _ := helmTest(t, values)
	if len(test.Spec.Containers) != 2 {
		t.Fatalf("the pod has %d containers", len(test.Spec.Containers))
	}
	const service = "shop-xdsrelay.mesh.svc"
	type run struct {
		*pod
		fails bool
	}
	var runs []run
	for _, c := range test.Spec.Containers {
		alone := test.Spec
		alone.Containers = []core.Container{c}
		works, fails := maps.Clone(hosts), maps.Clone(hosts)
		works[service], fails[service] = relay.address, plaintext
		fails["redis.example"] = plaintext
		for _, tc := range []struct {
			hosts map[string]string
			fails bool
		}{{works, false}, {fails, true}} {
			runs = append(runs, run{startPod(t, n, "shop-xdsrelay-test", alone, data, tc.hosts), tc.fails})
		}
	}
	for _, r := range runs {
		select {
		case <-r.ended:
		case <-time.After(patience):
			t.Fatalf("%s does not end\n%s", r.spec.Containers[0].Name, r.said())
		}
		if (r.err != nil) != r.fails {
			t.Errorf("%s ended with %v, expected to fail: %v\n%s", r.spec.Containers[0].Name, r.err, r.fails, r.said())
		}
	}
}

const tierValues = `
config:
  upstream: {addresses: ["control-plane.example:18000"]}
  tier: {redis: {url: "rediss://redis.example:6379"}}
  last_known_good: {store: redis}
ports: {rest: 18001}
tier:
  redis: {tls: {secretName: certificates, clientAuth: true}, passwordSecret: {name: words, key: redis}}
  peer: {tls: {secretName: certificates}, tokenSecret: {name: words, key: token}}
lastKnownGood: {encryptionKeysSecret: {name: words, key: keys}}
drain: {durationSeconds: 1, graceSeconds: 1}
allowPlaintext: true
`

// secrets are those that the values name.
func secrets(t *testing.T) objectData {
	t.Helper()
	made := certificate(t)
	return objectData{
		"certificates": {"tls.crt": made[".crt"], "tls.key": made[".key"], "ca.crt": made[".crt"]},
		"words": {
			"redis": "a password\n", "token": strings.Repeat("token", 4) + "\n", "keys": "k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n",
		},
	}
}

// startRedis starts a Redis as strict as it can be, and returns its address.
func startRedis(t *testing.T, n *network, data objectData) string {
	t.Helper()
	namespace, address := n.place()
	dir := t.TempDir()
	for file, text := range data["certificates"] {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ip", "netns", "exec", namespace, "redis-server", "--bind", address, "--port", "0", "--tls-port", "6379", "--save", "", "--dir", dir,
		"--requirepass", "a password", "--tls-auth-clients", "yes", "--tls-cert-file", dir+"/tls.crt", "--tls-key-file", dir+"/tls.key", "--tls-ca-cert-file", dir+"/ca.crt")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return address
}

// startControlPlane starts a relay that serves the directory of the examples.
func startControlPlane(t *testing.T, n *network) *pod {
	t.Helper()
	spec, data := podOf(t, directoryValues)
	data["resources"] = map[string]string{}
	files, err := filepath.Glob(repository + "/deploy/examples/directory/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data["resources"][filepath.Base(file)] = string(text)
	}
	p := startPod(t, n, "control-plane", spec, data, nil)
	p.ready()
	return p
}

const directoryValues = `
config: {upstream: {directory: /etc/xds}}
extraVolumes: [{name: xds, configMap: {name: resources}}]
extraVolumeMounts: [{name: xds, mountPath: /etc/xds, readOnly: true}]
drain: {durationSeconds: 1, graceSeconds: 1}
allowPlaintext: true
`

// podOf returns the pods that the chart makes of values, and its ConfigMaps.
func podOf(t *testing.T, text string) (core.PodSpec, objectData) {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	all, _, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	data := objectData{}
	for _, m := range all {
		if c, ok := m.object.(*core.ConfigMap); ok {
			data[c.Name] = c.Data
		}
	}
	return workloadOf(t, all).pod.Spec, data
}

// poll asks a pod for clusters as a client does that has nothing yet.
func poll(p *pod) string {
	p.t.Helper()
	const ask = `{"node": {"id": "a", "cluster": "shop"}, "type_url": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}`
	res, err := p.net.client().Post("http://"+p.at("rest")+"/v3/discovery:clusters", "application/json", strings.NewReader(ask))
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}
