package resource

import (
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Generators of the discovery messages: mostly valid, sometimes not.

func genName() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "c/d", "é"}), rapid.String())
}

func genBody() *rapid.Generator[proto.Message] {
	return rapid.Custom(func(t *rapid.T) proto.Message {
		name := genName().Draw(t, "body name")
		switch rapid.IntRange(0, 5).Draw(t, "body") {
		case 0:
			return genCluster(name).Draw(t, "cluster")
		case 1:
			return &endpointv3.ClusterLoadAssignment{ClusterName: name}
		case 2:
			return &listenerv3.Listener{Name: name, StatPrefix: "s"}
		case 3:
			return &routev3.VirtualHost{Name: name, Domains: []string{"*"}} // named by the envelope alone
		case 4:
			return &corev3.TypedExtensionConfig{Name: name}
		}
		return structpb.NewStringValue(name) // a type that the relay does not know
	})
}

func genCluster(name string) *rapid.Generator[*clusterv3.Cluster] {
	return rapid.Custom(func(t *rapid.T) *clusterv3.Cluster {
		c := &clusterv3.Cluster{Name: name}
		switch rapid.IntRange(0, 3).Draw(t, "discovery") {
		case 0:
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		case 1:
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
		case 2:
			c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{Name: "x"}}
		}
		if rapid.Bool().Draw(t, "eds config") {
			c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: genName().Draw(t, "service")}
		}
		return c
	})
}

// genType draws the type of a response and a generator of bodies that are mostly of that type.
func genType(t *rapid.T) (string, *rapid.Generator[*anypb.Any]) {
	sample := genAny().Draw(t, "type")
	return sample.GetTypeUrl(), genAny().Filter(func(a *anypb.Any) bool {
		return a.GetTypeUrl() == sample.GetTypeUrl() || len(a.GetValue())%7 == 0
	})
}

func genAny() *rapid.Generator[*anypb.Any] {
	return rapid.Custom(func(t *rapid.T) *anypb.Any {
		a, err := anypb.New(genBody().Draw(t, "message"))
		if err != nil {
			t.Fatal(err)
		}
		return a
	})
}

func genResource(bodies *rapid.Generator[*anypb.Any]) *rapid.Generator[*discoveryv3.Resource] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.Resource {
		r := &discoveryv3.Resource{
			Version: rapid.SampledFrom([]string{"", "1", "v42"}).Draw(t, "version"),
			Aliases: rapid.SliceOfN(genName(), 0, 2).Draw(t, "aliases"),
		}
		if rapid.IntRange(0, 9).Draw(t, "body") > 0 {
			r.Resource = bodies.Draw(t, "body")
		}
		switch rapid.IntRange(0, 3).Draw(t, "name") {
		case 0:
			r.Name = genName().Draw(t, "name")
		case 1:
			r.ResourceName = &discoveryv3.ResourceName{Name: genName().Draw(t, "resource name")}
		case 2:
			if r.GetResource() != nil {
				r.Name, _ = nameOf(TypeOf(r.GetResource().GetTypeUrl()), &discoveryv3.Resource{Resource: r.GetResource()})
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "ttl") == 0 {
			r.Ttl = &durationpb.Duration{
				Seconds: rapid.Int64Range(-1, 1000).Draw(t, "seconds"), Nanos: rapid.Int32Range(-1, 1_000_000_000).Draw(t, "nanos"),
			}
		}
		if rapid.Bool().Draw(t, "cache control") {
			r.CacheControl = &discoveryv3.Resource_CacheControl{DoNotCache: true}
		}
		if rapid.Bool().Draw(t, "unknown") {
			r.ProtoReflect().SetUnknown(unknownField99)
		}
		return r
	})
}

// unknownField99 is an encoded field that no version of Resource has.
var unknownField99 = protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "from the future")

func genResourceName() *rapid.Generator[*discoveryv3.ResourceName] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.ResourceName {
		n := &discoveryv3.ResourceName{Name: genName().Draw(t, "name")}
		if rapid.Bool().Draw(t, "variant") {
			n.DynamicParameterConstraints = &discoveryv3.DynamicParameterConstraints{
				Type: &discoveryv3.DynamicParameterConstraints_Constraint{
					Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: "env"},
				},
			}
		}
		return n
	})
}

func genResourceError() *rapid.Generator[*discoveryv3.ResourceError] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.ResourceError {
		e := &discoveryv3.ResourceError{ErrorDetail: genStatus(t)}
		if rapid.IntRange(0, 5).Draw(t, "named") > 0 {
			e.ResourceName = genResourceName().Draw(t, "resource name")
		}
		if rapid.Bool().Draw(t, "unknown") {
			e.ProtoReflect().SetUnknown(unknownField99)
		}
		return e
	})
}

func controlPlane(id string) *corev3.ControlPlane { return &corev3.ControlPlane{Identifier: id} }

func genDeltaResponse() *rapid.Generator[*discoveryv3.DeltaDiscoveryResponse] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.DeltaDiscoveryResponse {
		url, bodies := genType(t)
		m := &discoveryv3.DeltaDiscoveryResponse{
			SystemVersionInfo: genName().Draw(t, "version"), Nonce: genName().Draw(t, "nonce"), TypeUrl: url,
			Resources:            rapid.SliceOfN(genResource(bodies), 0, 4).Draw(t, "resources"),
			RemovedResources:     rapid.SliceOfN(genName(), 0, 3).Draw(t, "removed"),
			RemovedResourceNames: rapid.SliceOfN(genResourceName(), 0, 2).Draw(t, "removed names"),
			ResourceErrors:       rapid.SliceOfN(genResourceError(), 0, 2).Draw(t, "errors"),
			ControlPlane:         controlPlane(genName().Draw(t, "control plane")),
		}
		if rapid.Bool().Draw(t, "unknown") {
			m.ProtoReflect().SetUnknown(unknownField99)
		}
		return m
	})
}

func genSotWResponse() *rapid.Generator[*discoveryv3.DiscoveryResponse] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.DiscoveryResponse {
		url, bodies := genType(t)
		m := &discoveryv3.DiscoveryResponse{
			VersionInfo: genName().Draw(t, "version"), Nonce: genName().Draw(t, "nonce"), TypeUrl: url,
			ControlPlane:   controlPlane(genName().Draw(t, "control plane")),
			ResourceErrors: rapid.SliceOfN(genResourceError(), 0, 2).Draw(t, "errors"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "resources") {
			a := bodies.Draw(t, "bare")
			if rapid.Bool().Draw(t, "wrap") {
				var err error
				if a, err = anypb.New(genResource(bodies).Draw(t, "wrapped")); err != nil {
					t.Fatal(err)
				}
			}
			m.Resources = append(m.Resources, a)
		}
		return m
	})
}

func genNode(t *rapid.T) *corev3.Node {
	if rapid.Bool().Draw(t, "node") {
		return nil
	}
	return &corev3.Node{Id: genName().Draw(t, "id"), Cluster: genName().Draw(t, "cluster")}
}

func genStatus(t *rapid.T) *status.Status {
	if rapid.Bool().Draw(t, "error detail") {
		return nil
	}
	return &status.Status{Code: rapid.Int32().Draw(t, "code"), Message: genName().Draw(t, "message")}
}

func genSotWRequest() *rapid.Generator[*discoveryv3.DiscoveryRequest] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.DiscoveryRequest {
		m := &discoveryv3.DiscoveryRequest{
			VersionInfo: genName().Draw(t, "version"), Node: genNode(t), TypeUrl: genURL().Draw(t, "type"),
			ResourceNames: rapid.SliceOfN(genName(), 0, 4).Draw(t, "names"),
			ResponseNonce: genName().Draw(t, "nonce"), ErrorDetail: genStatus(t),
		}
		if rapid.Bool().Draw(t, "locators") {
			m.ResourceLocators = genLocators(t)
		}
		return m
	})
}

func genDeltaRequest() *rapid.Generator[*discoveryv3.DeltaDiscoveryRequest] {
	return rapid.Custom(func(t *rapid.T) *discoveryv3.DeltaDiscoveryRequest {
		m := &discoveryv3.DeltaDiscoveryRequest{
			Node: genNode(t), TypeUrl: genURL().Draw(t, "type"),
			ResourceNamesSubscribe:   rapid.SliceOfN(genName(), 0, 4).Draw(t, "subscribe"),
			ResourceNamesUnsubscribe: rapid.SliceOfN(genName(), 0, 4).Draw(t, "unsubscribe"),
			InitialResourceVersions:  rapid.MapOfN(genName(), genName(), 0, 4).Draw(t, "held"),
			ResponseNonce:            genName().Draw(t, "nonce"), ErrorDetail: genStatus(t),
		}
		if rapid.Bool().Draw(t, "locators") {
			m.ResourceLocatorsSubscribe, m.ResourceLocatorsUnsubscribe = genLocators(t), genLocators(t)
		}
		return m
	})
}

func genLocators(t *rapid.T) []*discoveryv3.ResourceLocator {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *discoveryv3.ResourceLocator {
		return &discoveryv3.ResourceLocator{
			Name: genName().Draw(t, "located"), DynamicParameters: rapid.MapOfN(genName(), genName(), 0, 3).Draw(t, "parameters"),
		}
	}), 0, 2).Draw(t, "locators")
}

func genURL() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"", ClusterURL, EndpointURL}), rapid.String())
}
