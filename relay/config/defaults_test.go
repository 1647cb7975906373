package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestDefaultYAML holds that the default file shows every field with the comment
// and the value that it has in the code.
func TestDefaultYAML(t *testing.T) {
	golden(t, "default.yaml", writeDefaultYAML(t))
}

// TestDefaultYAMLDecodes holds that the default file means Default.
func TestDefaultYAMLDecodes(t *testing.T) {
	got, err := parseFile("default.yaml", []byte(DefaultYAML()))
	if err != nil {
		t.Fatal(err)
	}
	if want := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("default.yaml means\n%+v\nwant\n%+v", got, want)
	}
	// Decoding starts from the defaults, so see that the file alone says them.
	empty := &Config{}
	d := decodeFile("default.yaml", []byte(DefaultYAML()), empty)
	if err := d.err(); err != nil || !reflect.DeepEqual(empty, got) {
		t.Errorf("default.yaml alone means\n%+v (%v)\nwant\n%+v", empty, err, got)
	}
}

// TestMinimalYAML: the minimal file is valid as it stands, short, and shows no key for
// experts.
func TestMinimalYAML(t *testing.T) {
	if _, err := Load(Input{File: "minimal.yaml", Data: []byte(MinimalYAML())}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(MinimalYAML(), "\n"); n > 25 {
		t.Errorf("%d lines, expected at most 25", n)
	}
	d := decodeFile("minimal.yaml", []byte(MinimalYAML()), Default())
	for _, k := range keys() {
		if _, set := d.places[k.path]; set && k.expert {
			t.Errorf("%s is for experts", k.path)
		}
	}
}

// TestDefaultLacksOnlyTheOrigin holds that an origin makes the defaults valid.
func TestDefaultLacksOnlyTheOrigin(t *testing.T) {
	cfg := Default()
	err := cfg.Validate()
	if err == nil || !strings.HasPrefix(err.Error(), "upstream: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Validate(Default()) = %v, want a single problem with upstream", err)
	}
	cfg.Upstream.Addresses = []string{"127.0.0.1:1"}
	if err := cfg.Validate(); err != nil {
		t.Errorf("with an origin: %v", err)
	}
}

// writeDefaultYAML makes the default file.
func writeDefaultYAML(t *testing.T) string {
	t.Helper()
	docs := fieldDocs(t, sources...)
	var b strings.Builder
	b.WriteString("# All keys of the configuration of xdsrelay, with their defaults.\n" +
		"# An environment variable can set each key with a single value or a list of text:\n" +
		"# XDSRELAY_ and its path in capitals, as in XDSRELAY_LISTENER_ADDRESS; commas separate\n" +
		"# the items of a list. Flags override variables, and variables override this file.\n" +
		"# [live]: a change takes effect while the node runs; all other keys need a restart.\n" +
		"# [expert]: set it only with support.\n")
	writeStruct(&b, docs, reflect.ValueOf(*Default()), "", false)
	return b.String()
}

func writeStruct(b *strings.Builder, docs map[string]string, v reflect.Value, indent string, live bool) {
	for _, f := range fieldsOf(v.Type()) {
		value := v.FieldByIndex(f.Index)
		if indent == "" {
			b.WriteString("\n")
		}
		for line := range strings.Lines(docs[commentKey(v.Type(), f)]) {
			b.WriteString(indent + "# " + strings.TrimSpace(line) + "\n")
		}
		isSection := value.Kind() == reflect.Struct && !isText(value.Type())
		var marks []string
		if (live || isLive(f)) && !isSection {
			marks = append(marks, "live")
		}
		if isExpert(f) {
			marks = append(marks, "expert")
		}
		if len(marks) > 0 {
			b.WriteString(indent + "# [" + strings.Join(marks, ", ") + "]\n")
		}
		b.WriteString(indent + yamlName(f) + ":")
		switch {
		case value.Kind() == reflect.Struct:
			b.WriteString("\n")
			writeStruct(b, docs, value, indent+"  ", live || isLive(f))
		case value.Kind() == reflect.Slice && value.Type() != stringsType && value.Len() > 0:
			b.WriteString("\n")
			for i := range value.Len() {
				var item strings.Builder
				writeStruct(&item, docs, value.Index(i), indent+"    ", false)
				b.WriteString(indent + "  -\n" + item.String())
			}
		default:
			b.WriteString(" " + writeScalar(value) + "\n")
		}
	}
}

func writeScalar(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		return strconv.Quote(x)
	case time.Duration:
		s := x.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		return s
	case []string:
		return "[" + strings.Join(x, ", ") + "]"
	case TLSVersion, ClientAuth, FileMode:
		return fmt.Sprintf("%q", x)
	default:
		return fmt.Sprint(x)
	}
}

// ruleIDs are what comments in the code say to those who read the protocol rules.
var ruleIDs = regexp.MustCompile(` \([A-K]\d+(, [A-K]\d+)*\)`)

// fieldDocs reads the comments of struct fields, by "package.Struct.Field".
func fieldDocs(t *testing.T, files ...string) map[string]string {
	t.Helper()
	docs := make(map[string]string)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if f.Tag == nil || !strings.Contains(f.Tag.Value, "yaml:") {
						continue
					}
					for _, id := range f.Names {
						key := file.Name.Name + "." + spec.Name.Name + "." + id.Name
						if _, twice := docs[key]; twice {
							t.Errorf("two fields have the key %s", key)
						}
						docs[key] = ruleIDs.ReplaceAllString(f.Doc.Text(), "")
					}
				}
			}
			return false
		})
	}
	return docs
}

// TestEveryFieldHasAComment holds that config.go says of each field what it is.
func TestEveryFieldHasAComment(t *testing.T) {
	docs := fieldDocs(t, sources...)
	for field, doc := range docs {
		if strings.TrimSpace(doc) == "" {
			t.Errorf("%s has no comment", field)
		}
	}
	if len(docs) < 30 {
		t.Errorf("found %d fields only", len(docs))
	}
}

// parseFile decodes a file on top of the defaults, without what the environment,
// flags and the whole configuration have to say.
func parseFile(name string, data []byte) (*Config, error) {
	cfg := Default()
	if err := decodeFile(name, data, cfg).err(); err != nil {
		return nil, err
	}
	return cfg, nil
}
