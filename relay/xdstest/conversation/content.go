package conversation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/xdstest"
)

// extraField is a field number that no resource has: contents that must differ
// where the type has no field for it go there, and so do unknown fields.
const extraField = 50001

// content is what is in a resource, apart from its envelope.
type content struct {
	tag     string // the word that tells contents apart
	inner   string // the name in the body; "" for the resource's own
	service string // cds: the name of its endpoints
	static  bool   // cds: has no endpoints of its own
	to      string // rds, vhds: the cluster; lds: the route configuration
	extra   string // a field that the type does not have
	garbage bool   // no protobuf message at all
	size    int    // so many bytes more, in a field that the type does not have
	anyURL  string // the type in the Any; "" for the resource's own
}

// build makes the body of a resource. Equal arguments give equal bytes.
func (c content) build(typeURL, name string) *anypb.Any {
	body := &anypb.Any{TypeUrl: cmp.Or(c.anyURL, typeURL)}
	if c.garbage {
		body.Value = append([]byte{0xff, 0xff}, name+"="+c.tag...)
		return body
	}
	name = cmp.Or(c.inner, innerName(typeURL, name))
	if m := c.message(typeURL, name); m != nil {
		body.Value = xdstest.Any(m).GetValue()
	} else {
		body.Value = protowire.AppendTag(nil, 1, protowire.BytesType)
		body.Value = protowire.AppendString(body.Value, name)
		body.Value = protowire.AppendTag(body.Value, extraField+1, protowire.BytesType)
		body.Value = protowire.AppendString(body.Value, c.tag)
	}
	if extra := c.extra + strings.Repeat(" ", c.size); extra != "" {
		body.Value = protowire.AppendTag(body.Value, extraField, protowire.BytesType)
		body.Value = protowire.AppendString(body.Value, extra)
	}
	return body
}

// innerName is the name that a body usually holds: a virtual host is named by
// its route configuration and itself, but holds only the latter (A3).
func innerName(typeURL, name string) string {
	if typeURL == xdstest.VirtualHostType {
		return name[strings.LastIndexByte(name, '/')+1:]
	}
	return name
}

// message is the body for the types that have one here, nil for others.
func (c content) message(typeURL, name string) proto.Message {
	salt := c.salt()
	switch typeURL {
	case xdstest.ClusterType:
		m := xdstest.ClusterWithService(name, c.service, time.Second+time.Duration(salt)*time.Millisecond)
		if c.static {
			m.ClusterDiscoveryType, m.EdsClusterConfig = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, nil
		}
		return m
	case xdstest.RouteType:
		if c.to == "" {
			break
		}
		m := xdstest.Route(name, c.to)
		m.VirtualHosts[0].Name = "host-" + strconv.Itoa(salt)
		return m
	case xdstest.VirtualHostType:
		return xdstest.VirtualHost(name, cmp.Or(c.to, "cluster-"+strconv.Itoa(salt)), fmt.Sprintf("%s-%d.example.com", name, salt))
	case xdstest.ListenerType:
		if c.to == "" {
			break
		}
		return xdstest.Listener(name, "0.0.0.0:"+strconv.Itoa(1+salt%65000), c.to)
	case xdstest.EndpointType, xdstest.ScopedRouteType, xdstest.LbEndpointType, xdstest.SecretType,
		xdstest.RuntimeType, xdstest.ExtensionConfigType:
	default:
		return nil
	}
	return xdstest.Synthetic(typeURL, name, salt)
}

// salt turns the tag into a number: numbers are themselves.
func (c content) salt() int {
	if n, err := strconv.Atoi(c.tag); err == nil && n >= 0 && n < 10_000 {
		return n
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.tag))
	return 10_000 + int(h.Sum32()%50_000)
}

// contents are all contents of a script, so that what arrives can be named. They
// are filled while the script is parsed and not changed after.
type contents struct {
	bodies map[contentKey]*anypb.Any
	tags   map[string]string // type URL of the Any and bytes
}

type contentKey struct{ typeURL, name, tag string }

func newContents() *contents {
	return &contents{bodies: make(map[contentKey]*anypb.Any), tags: make(map[string]string)}
}

func bodyKey(body *anypb.Any) string { return body.GetTypeUrl() + "\x00" + string(body.GetValue()) }

// add notes what an origin says under a name and tag.
func (c *contents) add(typeURL, name string, what content) (*anypb.Any, error) {
	key := contentKey{typeURL, name, what.tag}
	body := what.build(typeURL, name)
	if before := c.bodies[key]; before != nil && !proto.Equal(before, body) {
		return nil, fmt.Errorf("%s=%s stands for something else further up; use another tag", name, what.tag)
	}
	if tag, ok := c.tags[bodyKey(body)]; ok && tag != what.tag {
		return nil, fmt.Errorf("%s=%s is the same bytes as =%s; use another tag", name, what.tag, tag)
	}
	c.bodies[key], c.tags[bodyKey(body)] = body, what.tag
	return body, nil
}

// tagOf names what arrived; "?" if no origin says it in this script.
func (c *contents) tagOf(body *anypb.Any) string {
	if body == nil {
		return ""
	}
	if tag, ok := c.tags[bodyKey(body)]; ok {
		return tag
	}
	return "?"
}
