package xdsclient

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Frame is one response, seen alike for all variants. It is not changed after it was received.
type Frame struct {
	Delta   bool
	TypeURL string
	Version string // version_info or system_version_info
	Nonce   string

	Resources []Resource // in the order of the response
	Removed   []string   // delta only
	Errors    []*discoveryv3.ResourceError

	// Raw is the *DiscoveryResponse or *DeltaDiscoveryResponse itself.
	Raw proto.Message
}

// Resource is one resource of a [Frame].
type Resource struct {
	Name    string
	Version string     // on SotW that of the frame
	Body    *anypb.Any // nil in a heartbeat or an alias that leads nowhere
	TTL     time.Duration
	Aliases []string

	// Wrapper is the envelope: always there on delta, on SotW only if the
	// server sent one (F2).
	Wrapper *discoveryv3.Resource
}

// Decode unpacks the resource's body into m.
func (r Resource) Decode(m proto.Message) error {
	if r.Body == nil {
		return fmt.Errorf("resource %q has no body", r.Name)
	}
	return r.Body.UnmarshalTo(m)
}

// Names lists the frame's resources by name, sorted, with repetitions.
func (f *Frame) Names() []string {
	names := make([]string, 0, len(f.Resources))
	for _, r := range f.Resources {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// Get finds a resource by name.
func (f *Frame) Get(name string) (Resource, bool) {
	i := slices.IndexFunc(f.Resources, func(r Resource) bool { return r.Name == name })
	if i < 0 {
		return Resource{}, false
	}
	return f.Resources[i], true
}

// String is the frame in one line.
func (f *Frame) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s version=%q nonce=%q %s", ShortType(f.TypeURL), f.Version, f.Nonce, Brief(f.Names()))
	if len(f.Removed) > 0 {
		fmt.Fprintf(&b, " removed=%s", Brief(f.Removed))
	}
	for _, e := range f.Errors {
		fmt.Fprintf(&b, " error(%s)=%s", e.GetResourceName().GetName(), e.GetErrorDetail().GetMessage())
	}
	return b.String()
}

// ReadFrame receives one response of either variant.
func ReadFrame(stream grpc.ClientStream, delta bool) (*Frame, error) {
	var m proto.Message = &discoveryv3.DiscoveryResponse{}
	if delta {
		m = &discoveryv3.DeltaDiscoveryResponse{}
	}
	if err := stream.RecvMsg(m); err != nil {
		return nil, err
	}
	return FrameOf(m)
}

// FrameOf takes a *DiscoveryResponse or *DeltaDiscoveryResponse apart.
func FrameOf(m proto.Message) (*Frame, error) {
	switch m := m.(type) {
	case *discoveryv3.DiscoveryResponse:
		return sotwFrame(m)
	case *discoveryv3.DeltaDiscoveryResponse:
		return deltaFrame(m), nil
	}
	return nil, fmt.Errorf("a %T is no response", m)
}

// sotwFrame takes a SotW response apart.
func sotwFrame(m *discoveryv3.DiscoveryResponse) (*Frame, error) {
	f := &Frame{
		TypeURL: m.GetTypeUrl(), Version: m.GetVersionInfo(), Nonce: m.GetNonce(),
		Errors: m.GetResourceErrors(), Raw: m,
	}
	for i, body := range m.GetResources() {
		if body.GetTypeUrl() != wrapperType || m.GetTypeUrl() == wrapperType {
			f.Resources = append(f.Resources, Resource{Name: NameInBody(body), Version: f.Version, Body: body})
			continue
		}
		w := &discoveryv3.Resource{}
		if err := proto.Unmarshal(body.GetValue(), w); err != nil {
			return nil, fmt.Errorf("wrapped resource %d of %s: %w", i, ShortType(f.TypeURL), err)
		}
		r := fromWrapper(w)
		if r.Name == "" {
			r.Name = NameInBody(w.GetResource())
		}
		r.Version = f.Version
		f.Resources = append(f.Resources, r)
	}
	return f, nil
}

// deltaFrame takes a delta response apart.
func deltaFrame(m *discoveryv3.DeltaDiscoveryResponse) *Frame {
	f := &Frame{
		Delta: true, TypeURL: m.GetTypeUrl(), Version: m.GetSystemVersionInfo(), Nonce: m.GetNonce(),
		Removed: m.GetRemovedResources(), Errors: m.GetResourceErrors(), Raw: m,
	}
	for _, w := range m.GetResources() {
		f.Resources = append(f.Resources, fromWrapper(w))
	}
	return f
}

func fromWrapper(w *discoveryv3.Resource) Resource {
	return Resource{
		Name: w.GetName(), Version: w.GetVersion(), Body: w.GetResource(),
		TTL: w.GetTtl().AsDuration(), Aliases: w.GetAliases(), Wrapper: w,
	}
}

// NameInBody reads the name out of a marshalled resource: field 1 of every type
// that holds its name itself (table A-1). It is "" if there is none.
func NameInBody(body *anypb.Any) string {
	switch V3TypeOf(body.GetTypeUrl()) {
	case VirtualHostType, LbEndpointType:
		return ""
	}
	name := ""
	for b := body.GetValue(); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ""
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return ""
		}
		if num == 1 && typ == protowire.BytesType {
			// The last one wins, as in any protobuf message.
			v, _ := protowire.ConsumeBytes(b)
			name = string(v)
		}
		b = b[n:]
	}
	if !utf8.ValidString(name) {
		return ""
	}
	return name
}

// Brief is a list of names for a line of text, with the first twelve of them.
func Brief(names []string) string {
	const most = 12
	if len(names) <= most {
		return "[" + strings.Join(names, " ") + "]"
	}
	return fmt.Sprintf("[%s … %d names]", strings.Join(names[:most], " "), len(names))
}
