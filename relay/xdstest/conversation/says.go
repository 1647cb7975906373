package conversation

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// saying is one response of a scripted origin.
type saying struct {
	typeURL string
	typed   string
	items   []item
	removed []string
	names   []string // removed_resource_names
	errors  []resourceError
	version string
	nonce   string
	control string
	to      string
}

var sayKeywords = []string{"removed", "removed-names", "errors", "version", "nonce", "typed", "control-plane", "to"}

// parseSays reads "TYPE nothing|ITEM… CLAUSE…".
func parseSays(p *parser, a *args) (originAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	s := &saying{typeURL: u, typed: u}
	empty := a.skip("nothing")
	if s.items, err = parseItems(u, a.until(sayKeywords), true, p.script.contents); err != nil {
		return nil, err
	}
	for err == nil && !a.empty() {
		err = s.clause(a)
	}
	if err == nil && empty != (len(s.items)+len(s.removed)+len(s.names)+len(s.errors) == 0) {
		err = errors.New("it says resources, removed, errors, or nothing")
	}
	return func(o *origin) error { return o.says(s) }, err
}

func (s *saying) clause(a *args) (err error) {
	switch {
	case a.skip("removed"):
		s.removed, err = a.names(sayKeywords...)
	case a.skip("removed-names"):
		s.names, err = a.names(sayKeywords...)
	case a.skip("errors"):
		s.errors, err = parseErrors(a.until(sayKeywords))
	case a.skip("version"):
		s.version, err = a.text("a version")
		if s.version == "" {
			s.version = noVersion
		}
	case a.skip("nonce"):
		s.nonce, err = a.text("a nonce")
	case a.skip("typed"):
		var w word
		if w, err = a.next("a type"); err == nil {
			s.typed, err = typeURL(w)
		}
	case a.skip("control-plane"):
		s.control, err = a.text("an identifier")
	case a.skip("to"):
		s.to, err = a.text("a node")
	default:
		err = a.done()
	}
	return err
}

// noVersion is what `version ”` is kept as.
const noVersion = "\x00"

// says sends a response on the stream that asks for the type.
func (o *origin) says(s *saying) error {
	stream, err := o.streamOf(s.typeURL, s.to)
	if err != nil {
		return err
	}
	o.said++
	version, nonce := s.version, s.nonce
	switch version {
	case "":
		version = fmt.Sprintf("v%d", o.said)
	case noVersion:
		version = ""
	}
	if nonce == "" {
		nonce = fmt.Sprintf("n%d", o.said)
	}
	m, err := s.response(stream.delta, version, nonce)
	if err != nil {
		return err
	}
	return stream.grpc.Send(m)
}

func (s *saying) response(delta bool, version, nonce string) (proto.Message, error) {
	var control *corev3.ControlPlane
	if s.control != "" {
		control = &corev3.ControlPlane{Identifier: s.control}
	}
	var errs []*discoveryv3.ResourceError
	for _, e := range s.errors {
		errs = append(errs, &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: e.name},
			ErrorDetail:  &statuspb.Status{Code: int32(e.code), Message: "said by the script"},
		})
	}
	if !delta {
		if len(s.removed)+len(s.names) > 0 {
			return nil, errors.New("SotW has no removals; put [up delta] before the line")
		}
		m := &discoveryv3.DiscoveryResponse{
			TypeUrl: s.typed, VersionInfo: version, Nonce: nonce, ControlPlane: control, ResourceErrors: errs,
			Resources: make([]*anypb.Any, 0, len(s.items)),
		}
		for _, it := range s.items {
			m.Resources = append(m.Resources, it.inSotW(version))
		}
		return m, nil
	}
	m := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: s.typed, SystemVersionInfo: version, Nonce: nonce, ControlPlane: control, ResourceErrors: errs,
		RemovedResources: s.removed,
	}
	for _, n := range s.names {
		m.RemovedResourceNames = append(m.RemovedResourceNames, &discoveryv3.ResourceName{Name: n})
	}
	for _, it := range s.items {
		m.Resources = append(m.Resources, it.wrap(version))
	}
	return m, nil
}
