package demo

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/xdsclient"
)

// The types that the fleet knows. Others in a directory are not looked at.
const (
	listenerType = xdsclient.ListenerType
	routeType    = xdsclient.RouteType
	clusterType  = xdsclient.ClusterType
	endpointType = xdsclient.EndpointType
)

// thing is what a resource of a type is called on the screen.
func thing(typeURL string) string {
	switch typeURL {
	case listenerType:
		return "listener"
	case routeType:
		return "routes"
	case clusterType:
		return "cluster"
	}
	return "endpoints"
}

// ref names a resource.
type ref struct{ typeURL, name string }

func (r ref) String() string { return thing(r.typeURL) + " " + r.name }

// sum is the SHA-256 of a resource's bytes; zero where there is none.
type sum [sha256.Size]byte

// facts are what a client learns from a resource. They are immutable.
type facts struct {
	sum  sum
	size int
	// refers are the resources that this one makes a client ask for.
	refers []ref
	// service says that it is a listener for gRPC clients.
	service bool
	// wrong is why a client rejects it.
	wrong error
}

// library remembers what has been learnt from bytes: all clients get the same.
// It is safe for concurrent use.
type library struct {
	mu    sync.Mutex
	known map[sum]*facts
}

// look reads a resource.
func (l *library) look(typeURL string, body []byte) *facts {
	s := sum(sha256.Sum256(append([]byte(typeURL), body...)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.known[s]; f != nil {
		return f
	}
	if l.known == nil || len(l.known) > 10_000 {
		l.known = make(map[sum]*facts)
	}
	f := learn(typeURL, body)
	f.sum, f.size = s, len(body)
	l.known[s] = f
	return f
}

// learn decodes a resource and checks it by the rules in its definition, as
// Envoy does.
func learn(typeURL string, body []byte) *facts {
	var m interface {
		proto.Message
		Validate() error
	}
	switch typeURL {
	case listenerType:
		m = &listenerv3.Listener{}
	case routeType:
		m = &routev3.RouteConfiguration{}
	case clusterType:
		m = &clusterv3.Cluster{}
	default:
		m = &endpointv3.ClusterLoadAssignment{}
	}
	f := &facts{}
	if err := proto.Unmarshal(body, m); err != nil {
		f.wrong = fmt.Errorf("it cannot be decoded: %w", err)
		return f
	}
	if err := m.Validate(); err != nil {
		// It names every message on the way; the innermost says what is wrong.
		parts := strings.Split(err.Error(), "caused by: ")
		f.wrong = errors.New(parts[len(parts)-1])
	}
	switch m := m.(type) {
	case *listenerv3.Listener:
		f.listener(m)
	case *routev3.RouteConfiguration:
		f.routes(m)
	case *clusterv3.Cluster:
		if m.GetType() == clusterv3.Cluster_EDS {
			name := m.GetEdsClusterConfig().GetServiceName()
			if name == "" {
				name = m.GetName()
			}
			f.refers = append(f.refers, ref{endpointType, name})
		}
	}
	return f
}

func (f *facts) listener(m *listenerv3.Listener) {
	manager := func(config *anypb.Any) {
		var hcm hcmv3.HttpConnectionManager
		if config.MessageIs(&hcm) && config.UnmarshalTo(&hcm) == nil && hcm.GetRds() != nil {
			f.refers = append(f.refers, ref{routeType, hcm.GetRds().GetRouteConfigName()})
		}
	}
	if api := m.GetApiListener(); api != nil {
		f.service = true
		manager(api.GetApiListener())
	}
	for _, chain := range append(m.GetFilterChains(), m.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			manager(filter.GetTypedConfig())
		}
	}
}

func (f *facts) routes(m *routev3.RouteConfiguration) {
	for _, host := range m.GetVirtualHosts() {
		for _, route := range host.GetRoutes() {
			if name := route.GetRoute().GetCluster(); name != "" {
				f.refers = append(f.refers, ref{clusterType, name})
			}
			for _, c := range route.GetRoute().GetWeightedClusters().GetClusters() {
				f.refers = append(f.refers, ref{clusterType, c.GetName()})
			}
		}
	}
}
