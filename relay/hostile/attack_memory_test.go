package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/structpb"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// fieldNumber is that of a field of a message.
func fieldNumber(m proto.Message, name protoreflect.Name) protowire.Number {
	return m.ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// crowdEnv names the environment variable that makes this program hold idle connections:
// an address and their number. Their files are then not the test's.
const crowdEnv = "XDSRELAY_HOSTILE_CROWD"

// idleConnections opens connections from a process of their own, with the beginning of
// HTTP/2 and no stream, and returns what ends them.
func idleConnections(t *testing.T, address string, n int) (end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", crowdEnv, address, n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		end()
		t.Fatalf("the process with idle connections says %q: %v", line, err)
	}
	return end
}

// crowdAsChild is that process, which says so when it has all that it gets. It keeps
// them until its standard input ends.
func crowdAsChild() int {
	address, number, _ := strings.Cut(os.Getenv(crowdEnv), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	// As fast as this machine can, and from many addresses, so that no limit of one is reached.
	var all []net.Conn
	for i := range n {
		select {
		case <-ended:
			return 0
		default:
		}
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(i%20), 2)}}
		c, err := from.Dial("tcp", address)
		if err != nil {
			break // the node takes no more, or the system
		}
		_, _ = io.WriteString(c, http2.ClientPreface)
		_ = http2.NewFramer(c, c).WriteSettings()
		all = append(all, c)
	}
	fmt.Println("ready")
	<-ended
	for _, c := range all {
		_ = c.Close()
	}
	return 0
}

// idleNearTheLimit fills the memory of a node with connections that have no stream. They
// are what ends: a new client is served while the attacker keeps all that it may.
func idleNearTheLimit(t *testing.T, s *stage) {
	const many, each = 18_000, 48 << 10 // of the memory, see docs/reference/limits.md: that of the chart has room for them
	before := s.shortOfMemory(t)
	end := idleConnections(t, s.XDS, many)
	defer end()
	if s.Memory < many*each {
		xdstest.Eventually(t, "the memory to be short", func() bool { return s.shortOfMemory(t) > before || s.dead() })
	}
	s.servesNew(t)
}

// loadsNearTheLimit fills the memory of a node with load reports of many keys, which are
// bounded, and whose senders are the first that end.
func loadsNearTheLimit(t *testing.T, s *stage) {
	// Reports of one key are as good as those of another, so they are made once.
	long := strings.Repeat("n", 3500)
	var reports [][]byte
	for i := range size(5, 20) {
		m := &lrsv3.LoadStatsRequest{}
		for j := range 250 {
			m.ClusterStats = append(m.ClusterStats, &endpointv3.ClusterStats{
				ClusterName: fmt.Sprintf("%d-%d-%s", i, j, long), TotalDroppedRequests: 1,
				UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
					Locality: &corev3.Locality{Region: long[:1000]}, TotalIssuedRequests: 1, TotalRequestsInProgress: 1,
				}},
			})
		}
		reports = append(reports, encode(m))
	}
	cc := s.dial(t)
	var calls []*call
	for i := range size(40, 80) {
		if s.dead() {
			return
		}
		c := open(t, cc, loadMethod)
		calls = append(calls, c)
		if c.send(&lrsv3.LoadStatsRequest{Node: xdstest.Node("x", fmt.Sprintf("reports-%d", i))}) != nil {
			continue
		}
		xdstest.Eventually(t, "the terms of reports, or a refusal", func() bool { return c.count() > 0 || c.over() })
		for _, r := range reports {
			if c.send(r) != nil {
				break
			}
		}
	}
	s.servesNew(t)
	for _, c := range calls {
		c.close()
	}
}

// shortOfMemory returns how often the node has refused or ended something because memory was short.
func (s *stage) shortOfMemory(t *testing.T) int {
	t.Helper()
	n := 0
	for reason, count := range refusalsIn(s.get(t, "/metrics")) {
		if strings.HasSuffix(reason, "memory_percent") {
			n += count
		}
	}
	return n
}

// servesNew waits until the good clients have got changes, and a client that asks again
// and again is served.
func (s *stage) servesNew(t *testing.T) {
	t.Helper()
	changes := s.changes.Load()
	xdstest.Eventually(t, "changes to reach the good clients", func() bool { return s.changes.Load() >= changes+10 || s.dead() || s.wrongs() != nil })
	if err := s.wrongs(); err != nil {
		t.Error(err)
	}
	cc := s.dial(t)
	defer cc.Close()
	xdstest.Eventually(t, "a new client to be served", func() bool {
		c := open(t, cc, deltaMethod)
		defer c.close()
		_ = c.send(hello("new", theKey, content.ClusterURL, "*"))
		xdstest.Eventually(t, "a response or a refusal", func() bool { return c.count() > 0 || c.over() })
		return c.count() > 0 || s.dead()
	})
}

// fatStatus asks for the client status of clients with much metadata, which is redacted.
func fatStatus(t *testing.T, s *stage) {
	const n, bytes = 100, 3800
	ask := func() time.Duration {
		began := time.Now()
		if status, text := post(t, "http://"+s.Admin+"/v3/discovery:client_status", strings.NewReader("{}"), "X-Xdsrelay-Request", "1"); status != 200 {
			t.Errorf("client status: %d %.200s", status, text)
		}
		return time.Since(began)
	}
	before := ask()
	cc := s.dial(t)
	var calls []*call
	for i := range n {
		m := hello(fmt.Sprint("fat-", i), theKey, content.ClusterURL, "*")
		m.Node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"text": structpb.NewStringValue(strings.Repeat(hard[i%3], bytes/len(hard[i%3]))),
		}}
		c := open(t, cc, deltaMethod)
		_ = c.send(m)
		c.respond(t, 1, nil)
		calls = append(calls, c)
	}
	for range size(3, 20) {
		if now := ask(); now > 10*before+3*time.Second {
			t.Errorf("client status takes %v, and took %v before %d of %d clients came", now, before, n, good+n)
		}
	}
	for _, c := range calls {
		c.close()
	}
}
