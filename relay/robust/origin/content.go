package origin

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// Types are the types that a run has, in the order of pushes.
var Types = [...]string{xdstest.ClusterType, xdstest.EndpointType, xdstest.ListenerType, xdstest.RouteType}

// Universe lists the names that a type may have; they are the same for all keys, so
// that only stamps tell keys apart. Endpoints go by the names of clusters.
func Universe(typeURL string, size int) (names []string) {
	prefix := map[string]string{
		xdstest.ClusterType: "cluster", xdstest.EndpointType: "cluster", xdstest.ListenerType: "listener", xdstest.RouteType: "route",
	}[typeURL]
	for i := range size {
		names = append(names, prefix+"-"+strconv.Itoa(i))
	}
	return names
}

// stamped makes a valid resource of a key, with its stamp.
func stamped(typeURL, name, key string, serial int) proto.Message {
	stamp := record.Stamp(key, serial)
	switch typeURL {
	case xdstest.ClusterType:
		c := xdstest.Cluster(name, time.Second)
		c.AltStatName = stamp
		return c
	case xdstest.EndpointType:
		e := xdstest.Endpoints(name, "127.0.0.1:80")
		e.Endpoints[0].Locality.SubZone = stamp
		return e
	case xdstest.ListenerType:
		l := xdstest.Listener(name, "0.0.0.0:80", name)
		l.StatPrefix = stamp
		return l
	case xdstest.RouteType:
		r := xdstest.Route(name, "cluster-0")
		r.VirtualHosts[0].Name = stamp
		return r
	}
	panic(fmt.Sprintf("origin: no resource for type %q", typeURL))
}

// Resources are a frame's resources as a recording tells them. Versions count on
// delta only: elsewhere they are those of the response.
func Resources(f *xdstest.Frame) []record.Resource {
	var out []record.Resource
	for _, r := range f.Resources {
		key, serial, _ := record.ReadStamp(r.Body.GetValue())
		e := record.Resource{Name: r.Name, Key: key, Serial: serial}
		if f.Delta {
			e.Version = r.Version
		}
		out = append(out, e)
	}
	return out
}
