package amplify

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/bench/content"
	"xdsrelay/relay/tier"
)

// keepMethod is that by which a node which ends hands over what it holds of a key, as JSON.
// There is no descriptor of it. The answer of a node that was asked for what it holds has
// the same form, and the same code reads it.
const keepMethod = "/xdsrelay.peer.v1.Peer/Keep"

// keepRows are the rows of [keepMethod]: each field of a [tier.Holding], and of what it says
// of one type.
func (on port) keepRows(t *testing.T, all bool) (rows []row) {
	t.Helper()
	add := func(field, pattern string, fill func(size int) string) {
		rows = append(rows, row{surface: on.surface, message: "Keep", field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			b := encode(wrapperspb.Bytes([]byte(fill(size))))
			_ = on.call(t, keepMethod, b) // which may be refused
			return len(b)
		}})
	}
	one := fieldsOfJSON[tier.HeldContent]()
	one["type"] = json.RawMessage(quoted(content.ClusterURL))
	whole := fieldsOfJSON[tier.Holding]()
	whole["key"], whole["types"] = json.RawMessage(quoted("kept")), json.RawMessage("["+text(one)+"]")
	spoiled(whole, all, add)
	add("types", "many objects", func(size int) string {
		of := maps.Clone(whole)
		of["types"] = json.RawMessage("[" + strings.Repeat("{},", size/3) + "{}]")
		return text(of)
	})
	spoiled(one, all, func(field, pattern string, fill func(size int) string) {
		add("types."+field, pattern, func(size int) string {
			of := maps.Clone(whole)
			of["types"] = json.RawMessage(fmt.Sprintf("[%s]", fill(size)))
			return text(of)
		})
	})
	return rows
}

// fieldsOfJSON are the fields of a type as JSON, each with its zero value.
func fieldsOfJSON[T any]() map[string]json.RawMessage {
	of := make(map[string]json.RawMessage)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			of[tag], _ = json.Marshal(reflect.Zero(f.Type).Interface())
		}
	}
	return of
}
