package relay_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// The secrets of nodes and operators, and what else is not part of a resource.
const (
	canaryAdmin = canaryMark + "-admin-token"
	canaryWrong = canaryMark + "-wrong-token"
	canaryPeer  = canaryMark + "-peer-token"
	canaryRedis = canaryMark + "-redis-password"
	canaryNode  = canaryMark + "-node-metadata"
	canaryText  = canaryMark + "-in-a-text"
)

// secretText is what clients and origins write who quote what they should not.
const secretText = "key -----BEGIN PRIVATE KEY-----\n" + canaryText + "\n-----END PRIVATE KEY-----, authorization: Bearer " + canaryText +
	", password=" + canaryText + " at postgres://user:" + canaryText + "@db/x, \"client_secret\": \"" + canaryText + "\""

// aviary is a tier with a canary wherever a secret may be.
type aviary struct {
	*planter

	t      *testing.T
	find   *finder
	origin *xdstest.StateOrigin
	angry  string // the address of an origin that answers with an error
	names  map[string][]string
	logs   map[string]*lines
	nodes  []running
}

// newAviary makes an origin with all that is planted.
func newAviary(t *testing.T) *aviary {
	t.Helper()
	a := &aviary{planter: &planter{}, t: t, find: newFinder(), names: map[string][]string{}, logs: map[string]*lines{}}
	t.Cleanup(a.find.unpack.Close)
	a.origin = xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	planted := a.extensions()
	for _, m := range []proto.Message{
		&clusterv3.Cluster{}, &listenerv3.Listener{}, &routev3.RouteConfiguration{}, &endpointv3.ClusterLoadAssignment{}, &runtimev3.Runtime{},
	} {
		planted = append(planted, a.planted(m, false)...)
	}
	planted = append(planted, a.planted(&tlsv3.Secret{}, true)...)
	planted = append(planted, xdstest.Cluster("open", time.Second))
	for _, m := range planted {
		typ := xdstest.TypeOf(m)
		a.names[typ] = append(a.names[typ], xdstest.NameOf(m))
	}
	// The walk has to find what everybody knows to be secret.
	for _, known := range []string{
		"envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext: common_tls_context.tls_certificates.private_key.inline_bytes",
		"envoy.extensions.transport_sockets.tls.v3.Secret: generic_secret.secret.inline_string",
		"envoy.config.cluster.v3.Cluster: metadata.filter_metadata", "envoy.config.cluster.v3.Cluster: transport_socket.typed_config",
		"envoy.config.route.v3.RouteConfiguration: request_headers_to_add.header", "envoy.service.runtime.v3.Runtime: layer",
		"envoy.config.listener.v3.Listener: access_log.typed_config", "envoy.config.endpoint.v3.ClusterLoadAssignment: endpoints.lb_endpoints.metadata.filter_metadata",
	} {
		if !slices.Contains(a.at, known) {
			t.Errorf("no canary is in %s", known)
		}
	}
	a.origin.Set("demo", planted...)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.PermissionDenied, "who are you? "+secretText)
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	a.angry = listener.Addr().String()
	return a
}

// node is the Node of a client, with secrets in its metadata.
func (a *aviary) node(id string) *corev3.Node {
	n := xdstest.Node(id, "demo")
	n.Metadata = fromJSON(`{"auth_token": "` + canaryNode + `", "region": "r", "env": [{"name": "DB_PASSWORD", "value": "` + canaryNode + `"}]}`)
	return n
}

// client is a client of a node that asks for everything.
func (a *aviary) client(addr, id string, v xdstest.Variant, rejects string) *xdstest.Auto {
	c := xdstest.StartAuto(a.t, xdstest.AutoConfig{Addr: addr, Variant: v, Node: a.node(id), Nack: func(f *xdstest.Frame) string {
		if f.TypeURL == rejects {
			return "I do not like it: " + secretText
		}
		return ""
	}})
	for typ, names := range a.names {
		c.Subscribe(typ, names...)
	}
	return c
}

// arrives waits until a client holds all that is planted, and holds that it is all
// there as it was planted, and would be found.
func (a *aviary) arrives(c *xdstest.Auto) {
	a.t.Helper()
	var all []byte
	for typ, names := range a.names {
		c.WaitHeld(a.t, typ, names...)
		for _, held := range c.Held(typ) {
			all = append(all, held.Body...)
		}
	}
	for i, where := range a.at {
		if !bytes.Contains(all, []byte(a.text(i))) {
			a.t.Errorf("a client did not get %s as it was", where)
		}
	}
	if len(a.find.in(all)) == 0 {
		a.t.Error("nothing is found where all are")
	}
}

// file writes a file with a secret.
func (a *aviary) file(name, content string) string {
	path := filepath.Join(a.t.TempDir(), name)
	replaceFile(a.t, path, content)
	return path
}

// clean holds that nothing secret is in an output.
func (a *aviary) clean(where string, content []byte) {
	a.t.Helper()
	for _, found := range a.find.within(content) {
		for i := range a.at {
			found = strings.ReplaceAll(found, a.text(i), "<"+a.at[i]+">")
		}
		a.t.Errorf("%s holds %s", where, found)
	}
}

// ask sends a request to an admin port, and returns the answer, in which nothing
// secret may be.
func (a *aviary) ask(n running, method, path, token string, body []byte) string {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, "http://"+n.AdminAddr()+path, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set(admin.RequestHeader, "1")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	a.clean(method+" "+path, text)
	if token == canaryAdmin && res.StatusCode >= http.StatusBadRequest && !strings.HasPrefix(path, "/debug/check") {
		a.t.Errorf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	return string(text)
}

var links = regexp.MustCompile(`href="([^"]*)"`)

// pages reads all that an admin port shows, and asks for it in wrong ways.
func (a *aviary) pages(n running, client string) {
	a.t.Helper()
	seen := 0
	for _, link := range links.FindAllStringSubmatch(a.ask(n, http.MethodGet, "/", canaryAdmin, nil), -1) {
		path := strings.NewReplacer("key=KEY", "key=demo", "key=NAME", "key=demo", "resource=NAME", "resource=*", "a=KEY", "a=demo", "b=NAME", "b=demo&node_b=b", "client=NAME", "client="+client).Replace(html.UnescapeString(link[1]))
		if strings.HasSuffix(strings.SplitN(path, "?", 2)[0], "/profile") || strings.Contains(path, "/pprof/trace") {
			continue // take their time, and show code
		}
		a.ask(n, http.MethodGet, path, canaryAdmin, nil)
		if strings.HasPrefix(path, "/debug/") && !strings.Contains(path, "?") {
			a.ask(n, http.MethodGet, path+"?format=json", canaryAdmin, nil)
		}
		seen++
	}
	if seen < 20 {
		a.t.Errorf("the index lists %d pages", seen)
	}
	a.ask(n, http.MethodGet, "/api/v1/client?resources=10000&client="+client, canaryAdmin, nil)
	a.ask(n, http.MethodGet, "/debug/pprof/goroutine?debug=2", canaryAdmin, nil)
	if text := a.ask(n, http.MethodGet, "/api/v1/history/changes?key=demo&from=0", canaryAdmin, nil); !strings.Contains(text, `"fields": [`) {
		a.t.Errorf("the changes of the key have no fields: %.500s", text)
	}
	a.ask(n, http.MethodGet, "/debug/keys", canaryWrong, nil)
	a.ask(n, http.MethodGet, "/debug/keys?token="+canaryWrong, "", nil)
	node, err := protojson.Marshal(a.node(client))
	if err != nil {
		a.t.Fatal(err)
	}
	a.ask(n, http.MethodPost, "/tier/explain", canaryAdmin, node)
	a.ask(n, http.MethodPost, "/v3/discovery:client_status", canaryAdmin, []byte("{}"))
}

// dump reads the dump of the key, in all its parts, and holds that no resource is
// left out of it.
func (a *aviary) dump(n running) {
	a.t.Helper()
	var all strings.Builder
	next := regexp.MustCompile(`"next": ?"([^"]+)"`)
	for page := ""; ; {
		text := a.ask(n, http.MethodGet, "/api/v1/dump?key=demo&page="+url.QueryEscape(page), canaryAdmin, nil)
		all.WriteString(text)
		m := next.FindStringSubmatch(text)
		if m == nil {
			break
		}
		page = m[1]
	}
	for typ, names := range a.names {
		for _, name := range names {
			if !strings.Contains(all.String(), `"`+name+`"`) {
				a.t.Errorf("the dump lacks %s of %s", name, typ)
			}
		}
	}
	if n := strings.Count(all.String(), "[redacted]"); n < len(a.at)/4 {
		a.t.Errorf("%d marks for %d canaries", n, len(a.at))
	}
}

// TestCanaries: secrets in every field of the resources, in Nodes, in rejections and
// errors of origins, and those of the nodes themselves, go to clients as they are, and
// appear nowhere else: no page, API, dump, client status, metric, trace, log or
// command line, and in Redis nothing that was ever written there.
func TestCanaries(t *testing.T) {
	collector := collect(t)
	args := os.Args
	os.Args = append(slices.Clone(args), "--tier.redis.url=redis://user:"+canaryText+"@redis:6379")
	defer func() { os.Args = args }()
	a := newAviary(t)
	redis := redistest.Start(t, redistest.Config{Password: canaryRedis, Args: []string{"--appendonly", "yes"}})
	authority, keys := xdstest.NewAuthority(t, "the tier"), keysOf(t, "one")
	sealing, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(strings.TrimSpace(string(sealing)), ":")
	raw, _ := base64.StdEncoding.DecodeString(key)
	a.find.add("the key of the last good state", key)
	a.find.add("the key of the last good state", string(raw))
	for i, name := range []string{"a", "b"} {
		cfg := lastGoodConfig(t, "", keys)
		cfg.Node.Name, cfg.LastKnownGood.Store = name, config.StoreRedis
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{a.origin.Addr()}, []config.Variant{config.SotW, config.Delta}[i]
		angry := config.NamedUpstream{Name: "angry", Types: []string{"ScopedRouteConfiguration"}, Upstream: config.DefaultUpstream()}
		angry.Addresses = []string{a.angry}
		cfg.Upstreams = append(cfg.AllUpstreams(), angry)
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout = redis.URL(), xdstest.Patience
		if i == 1 {
			cfg.Tier.Redis.URL, cfg.Tier.Redis.PasswordFile = "redis://"+redis.Addr(), a.file("redis", canaryRedis)
		}
		cfg.Tier.Peer.Address, cfg.Tier.Peer.TokenFile = "127.0.0.1:0", a.file("peers", canaryPeer)
		files := &cfg.Tier.Peer.TLS
		files.CertFile, files.KeyFile, files.CAFile = authority.WriteFiles(t.TempDir(), "127.0.0.1", name)
		pem, err := os.ReadFile(files.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		a.find.add("the private key of a node", strings.Split(string(pem), "\n")[1])
		cfg.Admin.TokenFile, cfg.REST.Address, cfg.Downstream.CSDS = a.file("admin", canaryAdmin), "127.0.0.1:0", true
		cfg.Log.Format, cfg.Log.MaxRepeatsPerMinute = []config.Format{config.FormatText, config.FormatJSON}[i], 0
		if err := cfg.Log.Level.UnmarshalText([]byte("debug")); err != nil {
			t.Fatal(err)
		}
		a.logs[name] = &lines{}
		logger, levels := relay.NewLogger(a.logs[name], cfg.Log)
		a.nodes = append(a.nodes, startWith(t, cfg, relay.Options{Logger: logger, Levels: levels}))
	}

	var fleet []*xdstest.Auto
	for i, n := range a.nodes {
		for _, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
			fleet = append(fleet, a.client(n.Addr(), fmt.Sprintf("client-%d-%v", i, v), v, ""))
		}
		fleet[2*i].Subscribe(xdstest.ScopedRouteType)
	}
	for _, c := range fleet {
		a.arrives(c)
	}
	for i, n := range a.nodes {
		a.client(n.Addr(), fmt.Sprintf("rejecting-%d", i), xdstest.Delta, xdstest.ClusterType)
		conn := xdstest.Dial(t, n.Addr())
		conn.Node = a.node("reporting")
		load := conn.OpenLoad()
		report := xdstest.ClusterLoad("c", xdstest.ZoneLoad("z", 1, 0))
		report.UpstreamLocalityStats[0].UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{{Metadata: a.node("").Metadata}}
		_ = load.Report(report)
		poll, err := protojson.Marshal(a.nodeRequest())
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Post("http://"+n.RESTAddr()+"/v3/discovery:secrets", "application/json", bytes.NewReader(poll))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	since := time.Now()
	a.origin.Set("demo", xdstest.Cluster("open", time.Minute))
	xdstest.Eventually(t, "a trace tells of the rejection", func() bool {
		return slices.ContainsFunc(collector.Spans("update"), func(s xdstest.Span) bool {
			why, _ := s.Attribute("xds.nack").(string)
			return int64(s.StartTimeUnixNano) > since.UnixNano() && strings.Contains(why, "I do not like it")
		})
	})
	xdstest.Eventually(t, "the API tells of the rejections", func() bool {
		return strings.Count(a.ask(a.nodes[0], http.MethodGet, "/api/v1/clients", canaryAdmin, nil), "I do not like it") >= len(a.nodes)
	})
	xdstest.Eventually(t, "a log tells of the origin's error", func() bool { return a.logs["a"].count("who are you?")+a.logs["b"].count("who are you?") > 0 })

	for i, n := range a.nodes {
		a.pages(n, fmt.Sprintf("rejecting-%d", 1-i))
		a.dump(n)
		configs, _ := statusOf(t, xdstest.Dial(t, n.Addr()).ClientConn(), &statusv3.ClientStatusRequest{})
		for _, c := range configs {
			text, err := proto.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			a.clean("client status of "+c.GetNode().GetId(), text)
		}
		if len(configs) < 3 {
			t.Errorf("client status of %d clients", len(configs))
		}
	}
	xdstest.Eventually(t, "all types are kept", func() bool { return len(redis.Do("KEYS", "*:good:*").([]any)) >= len(a.names) })
	for _, n := range a.nodes {
		n.stop()
	}
	for _, n := range a.nodes {
		n.ended(t)
	}
	for _, received := range collector.Received() {
		a.clean("what is exported", received)
	}
	for name, log := range a.logs {
		log.mu.Lock()
		a.clean("the log of "+name, log.text.Bytes())
		if log.text.Len() < 1000 {
			t.Errorf("the log of %s: %s", name, &log.text)
		}
		log.mu.Unlock()
	}
	folder, _ := redis.Do("CONFIG", "GET", "dir").([]any)
	a.files(folder[1].(string), 10_000)
}

// nodeRequest is that of a client that polls for secrets.
func (a *aviary) nodeRequest() proto.Message {
	return &discoveryv3.DiscoveryRequest{Node: a.node("poller"), ResourceNames: a.names[xdstest.SecretType]}
}

// files holds that nothing secret is in the files of a folder, in which at least so
// many bytes are.
func (a *aviary) files(dir string, least int) {
	a.t.Helper()
	size := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		size += len(content)
		a.clean(path, content)
		return err
	})
	if err != nil || size < least {
		a.t.Errorf("%d bytes in %s: %v", size, dir, err)
	}
}

// TestCanariesInFiles: no secret is in the files of the last known good state, in the
// clear. Without keys the types that hold any are not there, and others are.
func TestCanariesInFiles(t *testing.T) {
	a := newAviary(t)
	a.origin.Set("demo", xdstest.ScopedRoute("open", "r", "k"))
	for _, keys := range []string{"", keysOf(t, "one")} {
		dir := t.TempDir()
		cfg := lastGoodConfig(t, dir, keys)
		cfg.Upstream.Addresses = []string{a.origin.Addr()}
		var log lines
		logger, levels := relay.NewLogger(&log, cfg.Log)
		n := startWith(t, cfg, relay.Options{Logger: logger, Levels: levels})
		c := a.client(n.Addr(), "client", xdstest.Delta, "")
		c.Subscribe(xdstest.ScopedRouteType)
		a.arrives(c)
		kept, refused := 1, len(a.names)
		if keys != "" {
			kept, refused = len(a.names)+1, 0
		}
		xdstest.Eventually(t, fmt.Sprintf("%d types are kept", kept), func() bool {
			files, _ := filepath.Glob(filepath.Join(dir, "*.good"))
			return len(files) == kept && log.count("not stored as last known good") == refused
		})
		n.stop()
		n.ended(t)
		a.files(dir, 10)
		c.Close()
	}
}
