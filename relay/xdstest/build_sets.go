package xdstest

import (
	"fmt"
	"net"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// GRPCService is everything a gRPC client needs to resolve xds:///name and to
// call the backends ("host:port"): the listener, its routes, the cluster and
// its endpoints, in the shape that grpc-go, C-core and grpc-js take. Their
// names are name, name-route, name-cluster and name-endpoints.
func GRPCService(name string, backends ...string) []proto.Message {
	return []proto.Message{
		APIListener(name, name+"-route"),
		Route(name+"-route", name+"-cluster"),
		ClusterWithService(name+"-cluster", name+"-endpoints", time.Second),
		Endpoints(name+"-endpoints", backends...),
	}
}

// Synthetic makes a valid resource of any type of table A-1 that can be made
// without thought, different for each salt and equal for equal arguments. Names
// of VirtualHost and LbEndpoint appear in the body only as far as their types
// allow. It panics on a type that it does not know.
func Synthetic(typeURL, name string, salt int) proto.Message {
	port := strconv.Itoa(1 + salt%65000)
	switch typeURL {
	case ListenerType:
		return Listener(name, "0.0.0.0:"+port, fmt.Sprintf("%s-route-%d", name, salt))
	case RouteType:
		return Route(name, fmt.Sprintf("cluster-%d", salt))
	case ScopedRouteType:
		return ScopedRoute(name, name+"-route", fmt.Sprintf("key-%d", salt))
	case VirtualHostType:
		return VirtualHost(name, fmt.Sprintf("cluster-%d", salt), name+".example.com")
	case ClusterType:
		return Cluster(name, time.Second+time.Duration(salt)*time.Millisecond)
	case EndpointType:
		return Endpoints(name, fmt.Sprintf("10.%d.%d.%d:80", salt>>16&255, salt>>8&255, salt&255))
	case LbEndpointType:
		return LbEndpoint("10.0.0.1:" + port)
	case SecretType:
		return Secret(name, fmt.Sprintf("certificate %d", salt), fmt.Sprintf("key %d", salt))
	case RuntimeType:
		return Runtime(name, map[string]float64{"salt": float64(salt)})
	case ExtensionConfigType:
		return Extension(name, wrapperspb.Int64(int64(salt)))
	}
	panic("xdstest: no synthetic resource for type " + strconv.Quote(typeURL))
}

func socketAddress(addr string) *corev3.Address {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(fmt.Sprintf("xdstest: address %q is not host:port: %v", addr, err))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		panic(fmt.Sprintf("xdstest: port of address %q: %v", addr, err))
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(n)},
	}}}
}
