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
	"xdsrelay/relay/yamlpos"
)

// dirFormat is one format of a message.
type dirFormat struct {
	name       string
	extensions []string
	unmarshal  func(b []byte, m proto.Message) error
}

// formatOf returns the format for the extension of path, or nil.
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

// parse parses the content of the file at path. Its errors name the file, and line and column if
// they are known. They never quote the content: a file may hold secrets, or may not be intended for
// the relay at all.
func (f *dirFormat) parse(path string, b []byte) (*dirContent, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		// An empty file is probably about to be written. It never means that there are no
		// resources.
		return nil, fmt.Errorf("%s: the file is empty, expected a DiscoveryResponse or a Resource in %s form", path, f.name)
	}
	m, err := f.response(b)
	if err != nil {
		at := ""
		if p, ok := errors.AsType[*yamlpos.Error](err); ok && p.Line > 0 {
			at, err = fmt.Sprintf(":%d:%d", p.Line, p.Column), errors.New(p.Message)
		}
		return nil, fmt.Errorf("%s%s: not a DiscoveryResponse in %s form: %w", path, at, f.name, err)
	}
	c, err := contentOf(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// response parses a DiscoveryResponse, or a single Resource instead, which is how collections are
// written (I1).
func (f *dirFormat) response(b []byte) (*discoveryv3.DiscoveryResponse, error) {
	m, single := &discoveryv3.DiscoveryResponse{}, &discoveryv3.Resource{}
	err := f.unmarshal(b, m)
	// In binary form a Resource also parses as a response. The body of that response then has no
	// name.
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

// contentOf decodes m like a response from the wire, so that the same rules apply to files.
func contentOf(m *discoveryv3.DiscoveryResponse) (*dirContent, error) {
	if m.TypeUrl == "" && len(m.Resources) > 0 && m.Resources[0] != nil {
		m.TypeUrl = m.Resources[0].TypeUrl
	}
	if m.TypeUrl == "" {
		return nil, errors.New("type_url is missing, and there is no resource to derive it from")
	}
	// K11: equal files must result in equal bytes on every node. Bodies from text formats were
	// marshalled deterministically when they were parsed.
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	r, err := resource.DecodeSotW(b, nil)
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
	return &dirContent{typ: r.Type, version: r.Version, resources: withoutTTLs(r.Resources)}, nil
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

// yamlLimits bound a YAML file.
var yamlLimits = yamlpos.Limits{Bytes: maxDirFile, Values: 4 << 20}

// unmarshalYAML converts YAML to JSON and parses that. It maps error positions in the JSON to
// positions in the file.
func unmarshalYAML(b []byte, m proto.Message) error {
	doc, err := yamlpos.ToJSON(b, yamlLimits)
	if mistake, ok := errors.AsType[*yamlpos.Error](err); ok {
		if mistake.Quotes {
			mistake.Message = kindOf(mistake.Message)
		}
		return mistake
	}
	err = unmarshalJSON(doc.Text, m)
	if p, ok := errors.AsType[*yamlpos.Error](err); ok {
		p.At = doc.Position(p.Line)
	}
	return err
}

var (
	statedType = regexp.MustCompile(`(?:type_url|typeUrl)["']?\s*:\s*["']?(type\.googleapis\.com/[\w.]+)`)
	anyType    = regexp.MustCompile(`type\.googleapis\.com/[\w.]+`)
)

// typesIn guesses which types a malformed file would hold: the type that it states, or all known
// types that it mentions. Nil means any.
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

// withoutTTLs returns resources without TTLs: a file is valid as long as it exists, and sends no
// heartbeats. A heartbeat in a file has no meaning and is left out.
func withoutTTLs(rs []*resource.Resource) []*resource.Resource {
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
