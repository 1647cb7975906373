package load

import (
	"fmt"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// numbers are all numbers of some stats, each under a path that says of what.
// Counters and gauges that are 0 are left out.
type numbers map[string]float64

// add adds what stats say. It goes by the descriptors, so that it knows nothing
// of the code under test.
func (n numbers) add(stats []*endpointv3.ClusterStats, factor float64) {
	for _, c := range stats {
		n.walk("", c.ProtoReflect(), factor)
	}
}

func (n numbers) walk(at string, m protoreflect.Message, factor float64) {
	at += "/" + identity(m.Interface())
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := at + "/" + string(f.Name())
		switch {
		case f.Name() == "priority" || f.Name() == "address" || f.Name() == "metadata" || f.Name() == "locality" || f.Name() == "load_report_interval":
		case f.IsList():
			for i := range v.List().Len() {
				n.walk(path, v.List().Get(i).Message(), factor)
			}
		case f.Kind() == protoreflect.MessageKind:
			n.walk(path, v.Message(), factor)
		case f.Kind() == protoreflect.Uint64Kind:
			n.put(path, factor*float64(v.Uint()))
		case f.Kind() == protoreflect.DoubleKind:
			n.put(path, factor*v.Float())
		}
		return true
	})
}

func (n numbers) put(path string, v float64) {
	if n[path] += v; n[path] == 0 {
		delete(n, path)
	}
}

func identity(m proto.Message) string {
	switch m := m.(type) {
	case *endpointv3.ClusterStats:
		return m.GetClusterName() + "+" + m.GetClusterServiceName()
	case *endpointv3.ClusterStats_DroppedRequests:
		return m.GetCategory()
	case *endpointv3.UpstreamLocalityStats:
		return fmt.Sprintf("%s.%d", m.GetLocality().GetZone(), m.GetPriority())
	case *endpointv3.UpstreamEndpointStats:
		return m.GetAddress().GetSocketAddress().GetAddress()
	case *endpointv3.EndpointLoadMetricStats:
		return m.GetMetricName()
	}
	return ""
}

// gaugePath reports whether a path is that of a gauge.
func gaugePath(path string) bool {
	return strings.HasSuffix(path, "_in_progress") || strings.HasSuffix(path, "_active_connections")
}

// only returns the numbers whose path pick accepts.
func (n numbers) only(pick func(path string) bool) numbers {
	out := numbers{}
	for path, v := range n {
		if pick(path) {
			out[path] = v
		}
	}
	return out
}

// plus adds other.
func (n numbers) plus(other numbers) {
	for path, v := range other {
		n.put(path, v)
	}
}
