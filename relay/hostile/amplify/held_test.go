package amplify

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"xdsrelay/bench/content"
	"xdsrelay/relay/tier"
)

// heldRows are the rows of what another node answers that was asked for what it holds of a
// key: each field of a [tier.Holding], and of what it says of one type. The node asks since it
// is told to adopt the key.
func (on port) heldRows(t *testing.T, other *controlPlane, all bool) (rows []row) {
	t.Helper()
	const key = "held"
	add := func(field, pattern string, fill func(size int) string) {
		rows = append(rows, row{surface: "other node", message: "Ask: held (answer)", field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			text := fill(size)
			other.held.Store(&text)
			query := url.Values{"key": {key}, "from": {otherNode}}
			_ = on.call(t, askMethod, question("adopt?"+query.Encode())) // the answer may be refused
			if other.held.Swap(nil) != nil {
				t.Errorf("%s: the node did not ask for what is held", field)
			}
			return len(text)
		}})
	}
	one := fieldsOfJSON[tier.HeldContent]()
	one["type"] = json.RawMessage(quoted(content.ClusterURL))
	whole := fieldsOfJSON[tier.Holding]()
	whole["key"], whole["types"] = json.RawMessage(quoted(key)), json.RawMessage("["+text(one)+"]")
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

// answerAsk answers a node that asks how the node is that the test is, or what it holds.
func (c *controlPlane) answerAsk(ss grpc.ServerStream) error {
	var asked []byte
	if err := ss.RecvMsg(&asked); err != nil {
		return err
	}
	answer := `{"clients":0}`
	var path wrapperspb.StringValue
	if proto.Unmarshal(asked, &path) == nil && strings.HasPrefix(path.GetValue(), "held?") {
		if text := c.held.Swap(nil); text != nil {
			answer = *text
		}
	}
	return ss.SendMsg(encode(wrapperspb.Bytes([]byte(answer))))
}
