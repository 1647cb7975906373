package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Doc describes all fields, in Markdown: docs/configuration.md.
func Doc() string {
	var b strings.Builder
	b.WriteString(docIntro)
	c := comments()
	v := reflect.ValueOf(*Default())
	for _, f := range fieldsOf(v.Type()) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", yamlName(f), said(f, commentOf(c, v.Type(), f)))
		writeFields(&b, c, v.FieldByIndex(f.Index), yamlName(f))
	}
	return b.String()
}

const docIntro = `# Configuration

This page is made from the code, as ` + "`xdsrelay config doc`" + ` prints it. ` + "`xdsrelay config default`" + ` prints a file with all of it, and ` + "`xdsrelay config schema`" + ` the JSON Schema, which editors check a file by.

Every field that holds one value can be set by an environment variable, too: ` + "`XDSRELAY_`" + ` and its path in capitals, as in ` + "`XDSRELAY_LISTENER_ADDRESS`" + `; lists of texts are split at commas. Flags win over variables, and those over the file. What is marked *live* changes while a node runs: when the file changes, on SIGHUP, and by ` + "`xdsrelay reload`" + `.
`

// writeFields writes a table of the fields of a section, or of an item of a list, and
// then what is in the sections below.
func writeFields(b *strings.Builder, c map[string]string, v reflect.Value, path string) {
	t := v.Type()
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		v, t, path = newItem(t.Elem()), t.Elem(), path+"[]"
	}
	if t.Kind() != reflect.Struct || isText(t) {
		if text, ok := defaultText(v); ok {
			fmt.Fprintf(b, "\nDefault: `%v`.\n", text)
		}
		return
	}
	b.WriteString("\n| Field | Default | |\n|---|---|---|\n")
	for _, f := range fieldsOf(t) {
		inner := v.FieldByIndex(f.Index)
		value := ""
		if text, ok := defaultText(inner); ok && fmt.Sprint(text) != "" && fmt.Sprint(text) != "[]" {
			value = fmt.Sprintf("`%v`", text)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", join(path, yamlName(f)), value, strings.ReplaceAll(said(f, commentOf(c, t, f)), "|", "\\|"))
	}
	for _, f := range fieldsOf(t) {
		inner := v.FieldByIndex(f.Index)
		if k := inner.Type(); k.Kind() == reflect.Struct && !isText(k) || k.Kind() == reflect.Slice && k.Elem().Kind() == reflect.Struct {
			fmt.Fprintf(b, "\n### %s\n", join(path, yamlName(f)))
			writeFields(b, c, inner, join(path, yamlName(f)))
		}
	}
}

// said adds to a comment that a field may change.
func said(f reflect.StructField, comment string) string {
	if isLive(f) {
		return comment + " *live*"
	}
	return comment
}
