package aggregation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Key names a group of clients that share one upstream stream per origin and one
// set of tables. It is printable, without line breaks, at most MaxKeyLen bytes
// long, and equal keys mean equal upstream Nodes; the package doc gives its form.
type Key string

// MaxKeyLen bounds a Key in bytes, marks and escapes included.
const MaxKeyLen = 512

const (
	digestBytes = 12 // of SHA-256; see the package doc for why not fewer
	maxMark     = 64 // bytes of a field's name in a mark; longer ones are digested
	markNone    = "~none"
)

// mark is the fixed mark of a rule, or ok = false where each Node needs a digest.
func (a analysis) mark() (mark string, ok bool) {
	switch {
	case len(a.paths) == 0:
		return markNone, true
	case len(a.paths) == 1 && isShown(a.paths[0]):
		return "~" + a.paths[0].String(), true
	case !a.exact:
		return "", false
	case a.paths[0][0] == "cluster":
		return "", true
	}
	name := escape(a.paths[0].String())
	return "~" + name, len(name) <= maxMark
}

// digestMark tells Nodes apart that give the same string.
func digestMark(paths []path, passed *corev3.Node) string {
	sum := sha256.Sum256(appendPassed(nil, paths, passed))
	return "~" + hex.EncodeToString(sum[:digestBytes])
}

// escape keeps a string from spelling a mark or a feature. It is injective.
func escape(s string) string {
	if !strings.ContainsAny(s, "%~+") {
		return s
	}
	return strings.NewReplacer("%", "%25", "~", "%7E", "+", "%2B").Replace(s)
}

// checkText refuses strings that would make a key unreadable or forge log lines.
func checkText(s string) error {
	if len(s) > MaxKeyLen {
		return fmt.Errorf("the key has %d bytes, expected at most %d", len(s), MaxKeyLen)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("the key %q is not valid UTF-8", s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the key %q contains %U, expected printable characters only", s, r)
		}
	}
	return nil
}

// appendPassed writes names and values of the passed fields in a form of our own:
// protobuf promises no stable bytes from one build to the next, and relay nodes
// of two versions must agree on a key.
func appendPassed(b []byte, paths []path, n *corev3.Node) []byte {
	b = binary.AppendUvarint(b, uint64(len(paths)))
	for _, p := range paths {
		b = binary.AppendUvarint(b, uint64(len(p)))
		for _, s := range p {
			b = appendString(b, s)
		}
	}
	l := n.GetLocality()
	for _, s := range []string{n.GetId(), n.GetCluster(), l.GetRegion(), l.GetZone(), l.GetSubZone(), n.GetUserAgentName()} {
		b = appendString(b, s)
	}
	switch v := n.GetUserAgentVersionType().(type) {
	case *corev3.Node_UserAgentVersion:
		b = appendString(append(b, 1), v.UserAgentVersion)
	case *corev3.Node_UserAgentBuildVersion:
		sv := v.UserAgentBuildVersion.GetVersion()
		b = append(b, 2)
		for _, u := range []uint32{sv.GetMajorNumber(), sv.GetMinorNumber(), sv.GetPatch()} {
			b = binary.AppendUvarint(b, uint64(u))
		}
	default:
		b = append(b, 0)
	}
	return appendStruct(b, n.GetMetadata())
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStruct(b []byte, s *structpb.Struct) []byte {
	fields := s.GetFields()
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendValue(appendString(b, name), fields[name])
	}
	return b
}

func appendValue(b []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		if k.BoolValue {
			return append(b, 'T')
		}
		return append(b, 'F')
	case *structpb.Value_NumberValue:
		return binary.BigEndian.AppendUint64(append(b, 'N'), math.Float64bits(k.NumberValue))
	case *structpb.Value_StringValue:
		return appendString(append(b, 'S'), k.StringValue)
	case *structpb.Value_ListValue:
		b = binary.AppendUvarint(append(b, 'L'), uint64(len(k.ListValue.GetValues())))
		for _, e := range k.ListValue.GetValues() {
			b = appendValue(b, e)
		}
		return b
	case *structpb.Value_StructValue:
		return appendStruct(append(b, 'M'), k.StructValue)
	}
	return append(b, '0') // null, which is also what compose makes of an unset value
}
