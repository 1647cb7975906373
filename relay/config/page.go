package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"xdsrelay/relay/rollout"
)

// key is a field of the configuration for the reference page.
type key struct {
	path         string // like limits.max_connections, or upstreams[].name in a list
	kind         string // its type, for readers
	def          string // its default as in the file; empty for none
	doc          string
	section      bool // it has keys of its own
	live, expert bool
}

// keys lists all fields, in the order of the file, each section before its fields.
func keys() (all []key) {
	c := comments()
	var walk func(v reflect.Value, path string, live bool)
	walk = func(v reflect.Value, path string, live bool) {
		for _, f := range fieldsOf(v.Type()) {
			inner := v.FieldByIndex(f.Index)
			k := key{
				path: join(path, yamlName(f)), kind: kindOf(inner.Type()), doc: commentOf(c, v.Type(), f),
				live: live || isLive(f), expert: isExpert(f),
			}
			if text, ok := defaultText(inner); ok && fmt.Sprint(text) != "" && fmt.Sprint(text) != "[]" {
				k.def = defaultOf(text)
			}
			switch t := inner.Type(); {
			case t.Kind() == reflect.Struct && !isText(t):
				k.section = true
				all = append(all, k)
				walk(inner, k.path, k.live)
			case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
				k.section = true
				all = append(all, k)
				walk(newItem(t.Elem()), k.path+"[]", k.live)
			default:
				all = append(all, k)
			}
		}
	}
	walk(reflect.ValueOf(*Default()), "", false)
	return all
}

// defaultOf is a default for readers.
func defaultOf(v any) string {
	if items, ok := v.([]string); ok {
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// isExpert reports whether a field is one that operators set only with support.
func isExpert(f reflect.StructField) bool { return f.Tag.Get("level") == "expert" }

// kindOf names a type for readers.
func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t == reflect.TypeFor[Size]():
		return "size"
	case t == reflect.TypeFor[FileMode]():
		return "permissions"
	case t == reflect.TypeFor[rollout.Share]():
		return "percentage"
	case t == reflect.TypeFor[Bundles]():
		return "map of text"
	case t == stringsType:
		return "list of text"
	case t.Kind() == reflect.Slice:
		return "list"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		var words []string
		for _, w := range choices(t) {
			if w != "" {
				words = append(words, "`"+w+"`")
			}
		}
		return strings.Join(words, ", ")
	}
	switch t.Kind() {
	case reflect.Struct:
		return "section"
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return "text"
}

// Doc describes all fields, in Markdown: docs/reference/configuration.md.
func Doc() string {
	var b strings.Builder
	b.WriteString(docIntro)
	for _, k := range keys() {
		if !strings.Contains(k.path, ".") {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", k.path, k.doc)
			if k.section {
				b.WriteString("\n| Key | Type | Default | Change | Level | Description |\n|---|---|---|---|---|---|\n")
			}
			continue
		}
		def := ""
		if k.def != "" {
			def = "`" + k.def + "`"
		}
		change, level := "restart", "basic"
		if k.live {
			change = "live"
		}
		if k.expert {
			level = "expert"
		}
		if k.section && k.kind == "section" {
			change, level = "", ""
		}
		fmt.Fprintf(&b, "| <a id=%q></a>`%s` | %s | %s | %s | %s | %s |\n", anchorOf(k.path), k.path, k.kind, def, change, level, strings.ReplaceAll(k.doc, "|", "\\|"))
	}
	return b.String()
}

// anchorOf is the anchor of a key in the page.
func anchorOf(path string) string { return strings.ReplaceAll(path, "[]", "") }

const docIntro = `# Configuration

This page is generated: ` + "`xdsrelay config doc`" + ` prints it. ` + "`xdsrelay config default`" + ` prints a file with all fields, ` + "`xdsrelay config default --minimal`" + ` one with the fields that most users set, and ` + "`xdsrelay config schema`" + ` the JSON Schema, by which editors check a file.

An environment variable can set each key with a single value or a list of text: ` + "`XDSRELAY_`" + ` and its path in capitals, as in ` + "`XDSRELAY_LISTENER_ADDRESS`" + `; commas separate the items of a list. Flags override variables, and variables override the file.

*Change*: when a change of the key takes effect. *live*: it takes effect while the node runs, when the file changes, on SIGHUP, and by ` + "`xdsrelay reload`" + `. *restart*: it takes effect when the node restarts.

*Level*: the operators who set the key. *basic*: any operator. *expert*: operators who work with support; the default is right in all other cases.

Durations are text like ` + "`500ms`, `30s` or `1m30s`" + `; sizes are text like ` + "`512KiB` or `64MiB`" + `. Each key has an anchor: ` + "`configuration.md#limits.max_connections`" + `.
`
