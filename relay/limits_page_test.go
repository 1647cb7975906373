package relay_test

import (
	"fmt"
	"os"
	"path/filepath"
	values "reflect"
	"strings"
	"testing"
	"time"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/config"
)

var (
	limitsPage  = filepath.Join("..", "docs", "reference", "limits.md")
	limitsBegin = "<!-- limits: go test ./relay -run TestLimitsPage -update -->\n"
	limitsEnd   = "<!-- end -->\n"
)

// TestLimitsPage: docs/reference/limits.md lists the limits as the code has them, with the
// defaults of the configuration.
func TestLimitsPage(t *testing.T) {
	text, err := os.ReadFile(limitsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), limitsBegin)
	_, after, ends := strings.Cut(rest, limitsEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the marks of its table", limitsPage)
	}
	want := before + limitsBegin + limitsTable(t) + limitsEnd + after
	if *update {
		if err := os.WriteFile(limitsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not what the code says: go test ./relay -run TestLimitsPage -update", limitsPage)
	}
}

func limitsTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| Limit | Of | Default | When exceeded | Protects | `xdsrelay.rejections` |\n|---|---|--:|---|---|---|\n")
	for _, n := range limit.All() {
		a := n.About()
		label := "–"
		if where := n.Where(); where != "" {
			label = "`where=" + where + "`, `reason=" + n.Reason() + "`"
		} else if n == limit.Requests {
			label = "– (`xdsrelay.downstream.delayed_requests`)"
		}
		field, value := "–", a.Fixed
		if a.Field != "" {
			field, value = "`"+a.Field+"`", defaultOf(t, a.Field)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", field, a.What, value, a.Exceeded, a.Protects, label)
	}
	b.WriteString("\n")
	return b.String()
}

// defaultOf is the default of a field of the configuration.
func defaultOf(t *testing.T, path string) string {
	t.Helper()
	v := values.ValueOf(*config.Default())
	for name := range strings.SplitSeq(path, ".") {
		v = fieldNamed(v, name)
		if !v.IsValid() {
			t.Fatalf("the configuration has no field %s", path)
		}
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return strings.ReplaceAll(x.String(), "m0s", "m")
	default:
		return fmt.Sprint(x)
	}
}

// fieldNamed is the field that the file calls so; those of an embedded struct are its
// own.
func fieldNamed(v values.Value, name string) values.Value {
	for _, f := range values.VisibleFields(v.Type()) {
		if !f.Anonymous && f.Tag.Get("yaml") == name {
			return v.FieldByIndex(f.Index)
		}
	}
	return values.Value{}
}
