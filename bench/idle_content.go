package bench

import (
	"net"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// idleSpec is what the server and the clients of one run have to know.
type idleSpec struct {
	Server    string // one of the Server constants
	Delta     bool
	Clients   int
	Resources int // of each of the two types
	Addr      string
}

// idleNode and idleCluster identify all clients: they share one key.
const (
	idleNode    = "bench"
	idleCluster = "bench"
)

// idleContent returns the clusters or the endpoints of a revision. From one to
// the next, one cluster and one endpoint set change.
func idleContent(t *resource.Type, n, revision int) []*resource.Resource {
	out := make([]*resource.Resource, n)
	for i := range out {
		out[i] = idleResource(t, i, lastChange(i, n, revision))
	}
	return out
}

// lastChange is the revision in which resource i changed last; 0 for never.
func lastChange(i, n, revision int) int {
	if revision < i {
		return 0
	}
	return (revision-i)/n*n + i
}

// idleChange returns the one resource of a type that a revision changes.
func idleChange(t *resource.Type, n, revision int) *resource.Resource {
	return idleResource(t, revision%n, revision)
}

func idleResource(t *resource.Type, i, revision int) *resource.Resource {
	name := idleName(i)
	var m proto.Message
	r := resource.Resource{Name: name}
	if t.URL == resource.ClusterURL {
		m = xdstest.Cluster(name, time.Second+time.Duration(revision)*time.Millisecond)
		r.Endpoints = name
	} else {
		m = xdstest.Endpoints(name,
			net.JoinHostPort("10.0.0.1", strconv.Itoa(1000+revision)), net.JoinHostPort("10.0.0.2", "8080"))
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(xdstest.Any(m))
	if err != nil {
		panic("bench: " + err.Error()) // a message that we built ourselves
	}
	r.Body = body
	return resource.New(r)
}

func idleName(i int) string { return "service-" + strconv.Itoa(i) }

// idleTypes are the types that clients subscribe to: clusters by wildcard,
// endpoints by names.
func idleTypes() [2]*resource.Type {
	return [2]*resource.Type{resource.TypeOf(resource.ClusterURL), resource.TypeOf(resource.EndpointURL)}
}

// holding stands for everything that a client holds: a sum over the resources,
// which a change adjusts.
type holding uint64

func (h *holding) add(name string, body []byte) { *h += holding(hashOf(name, body)) }
func (h *holding) sub(hash uint64)              { *h -= holding(hash) }

func hashOf(name string, body []byte) uint64 {
	return xxhash.Sum64(body) ^ xxhash.Sum64String(name)*0x9e3779b97f4a7c15
}

// expectedHolding is what a client holds that has all of a revision.
func expectedHolding(n, revision int) (h holding) {
	for _, t := range idleTypes() {
		for _, r := range idleContent(t, n, revision) {
			h.add(r.Name, r.Body)
		}
	}
	return h
}
