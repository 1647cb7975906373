package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
	_ "xdsrelay/relay/resource/jsontypes" // JSON, YAML and text need the types inside of an Any
)

// dirFormat is one way to write a message.
type dirFormat struct {
	name       string
	extensions []string
	unmarshal  func(b []byte, m proto.Message) error
}

// formatOf returns the format that the extension of path stands for, or nil.
func formatOf(path string) *dirFormat {
	ext := strings.ToLower(filepath.Ext(path))
	for _, f := range [...]*dirFormat{
		{"binary", []string{".pb", ".bin"}, unmarshalBinary},
		{"JSON", []string{".json"}, unmarshalJSON},
		{"YAML", []string{".yaml", ".yml"}, unmarshalYAML},
		{"text", []string{".txtpb", ".textproto", ".pb_text"}, unmarshalText},
	} {
		if slices.Contains(f.extensions, ext) {
			return f
		}
	}
	return nil
}

// parse reads the contents of the file at path. Its errors name the file, and line and
// column where they are known, and never quote the content: a file may hold secrets, or
// may be a file that was never meant to be read here.
func (f *dirFormat) parse(path string, b []byte) (*dirContent, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		// An empty file is one that is about to be written, and never what
		// says that there are no resources.
		return nil, fmt.Errorf("%s: the file is empty, expected a DiscoveryResponse or a Resource in %s form", path, f.name)
	}
	m, err := f.response(b)
	if err != nil {
		at := ""
		if p, ok := errors.AsType[*placed](err); ok {
			at, err = fmt.Sprintf(":%d:%d", p.line, p.column), errors.New(p.msg)
		}
		return nil, fmt.Errorf("%s%s: not a DiscoveryResponse in %s form: %w", path, at, f.name, err)
	}
	c, err := contentOf(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// response reads a DiscoveryResponse, or a single Resource in its place, as
// collections are written (I1).
func (f *dirFormat) response(b []byte) (*discoveryv3.DiscoveryResponse, error) {
	m, single := &discoveryv3.DiscoveryResponse{}, &discoveryv3.Resource{}
	err := f.unmarshal(b, m)
	// In binary form a Resource passes for a response, whose one body has no
	// name then.
	if err == nil && !(len(m.Resources) == 1 && resource.TypeOf(m.Resources[0].GetTypeUrl()).DeltaOnly()) {
		return m, nil
	}
	if f.unmarshal(b, single) != nil || single.Name == "" || single.Resource == nil {
		return m, err
	}
	wrapped := &anypb.Any{}
	if err := anypb.MarshalFrom(wrapped, single, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, err
	}
	return &discoveryv3.DiscoveryResponse{TypeUrl: single.Resource.TypeUrl, Resources: []*anypb.Any{wrapped}}, nil
}

// contentOf takes m the way of a response from the wire, so that files are held
// to the same rules.
func contentOf(m *discoveryv3.DiscoveryResponse) (*dirContent, error) {
	if m.TypeUrl == "" && len(m.Resources) > 0 && m.Resources[0] != nil {
		m.TypeUrl = m.Resources[0].TypeUrl
	}
	if m.TypeUrl == "" {
		return nil, errors.New("type_url is missing, and there is no resource to take it from")
	}
	// K11: equal files must give equal bytes on every node. Bodies written as
	// text were marshalled deterministically when they were read.
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	r, err := resource.DecodeSotW(b)
	if err != nil {
		return nil, withoutContent(err)
	}
	var bad []error
	for _, i := range r.Invalid {
		bad = append(bad, fmt.Errorf("resource %d of the file: %s", i.Index+1, kindOf(i.Err.Error())))
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return &dirContent{typ: r.Type, version: r.Version, resources: lasting(r.Resources)}, nil
}

func unmarshalBinary(b []byte, m proto.Message) error {
	return withoutContent(proto.Unmarshal(b, m))
}

func unmarshalJSON(b []byte, m proto.Message) error {
	return withoutContent(protojson.Unmarshal(b, m))
}

func unmarshalText(b []byte, m proto.Message) error {
	return withoutContent(prototext.Unmarshal(b, m))
}

// unmarshalYAML reads YAML as the JSON that it stands for, and moves what is
// said of that JSON to where it stands in the file.
func unmarshalYAML(b []byte, m proto.Message) error {
	doc, err := yamlToJSON(b)
	if err != nil {
		return err
	}
	err = unmarshalJSON(doc.json, m)
	if p, ok := errors.AsType[*placed](err); ok {
		p.line, p.column = doc.position(p.line)
	}
	return err
}

var (
	statedType = regexp.MustCompile(`(?:type_url|typeUrl)["']?\s*:\s*["']?(type\.googleapis\.com/[\w.]+)`)
	anyType    = regexp.MustCompile(`type\.googleapis\.com/[\w.]+`)
)

// typesIn guesses which types a file that cannot be read would hold: the one
// that it states, or all known ones that it mentions. Nil means any.
func typesIn(b []byte) []string {
	if m := statedType.FindSubmatch(b); m != nil {
		return []string{string(m[1])}
	}
	var found []string
	for _, m := range anyType.FindAll(b, -1) {
		url := string(m)
		known := slices.ContainsFunc(resource.Known(), func(t *resource.Type) bool { return t.URL == url })
		if known && !slices.Contains(found, url) {
			found = append(found, url)
		}
	}
	return found
}

// lasting returns resources without TTLs: a file says what there is for as long
// as it says so, and sends no heartbeats. A heartbeat in it means nothing.
func lasting(rs []*resource.Resource) []*resource.Resource {
	out := make([]*resource.Resource, 0, len(rs))
	for _, r := range rs {
		switch {
		case r.Heartbeat():
		case r.TTL > 0:
			kept := *r
			kept.TTL = 0
			out = append(out, resource.New(kept))
		default:
			out = append(out, r)
		}
	}
	return out
}
