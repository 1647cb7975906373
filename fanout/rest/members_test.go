package rest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// TestMembers: members finds the members that a decoder finds, whatever their values, and the last
// one of a text that is cut off is not whole.
func TestMembers(t *testing.T) {
	for text, want := range map[string][]string{
		`{}`:                                  nil,
		` {"a":1}`:                            {"a=1 true"},
		`{"a":{"b":[1,{"c":2}]},"d":"}\",{"}`: {`a={"b":[1,{"c":2}]} true`, `d="}\",{" true`},
		`{"a" : [ "x" , {} ] , "b":2 }`:       {`a=[ "x" , {} ] true`, "b=2 true"},
		`{"a":1,"b":[1,2`:                     {"a=1 true", "b=[1,2 false"},
		`{"a":"x`:                             {`a="x false`},
		`{"a`:                                 nil,
		`{"a":"\`:                             {`a="\ false`},
		`[1,2]`:                               nil,
		`"x":1`:                               nil,
		``:                                    nil,
	} {
		var got []string
		err := members([]byte(text), func(m member) error {
			got = append(got, fmt.Sprintf("%s=%s %t", m.name, m.value, m.whole))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %q and %v, want %q", text, got, err, want)
		}
	}
	if m := (member{name: []byte(`nod\u0065`)}); !m.is("node") || m.is("nod") {
		t.Error("a name that is escaped is another one")
	}
}

// FuzzMembers: for valid JSON, members finds the members that encoding/json finds.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,{"c":2}]},"d":"}\",{","e":null}`))
	f.Add([]byte(`{"\"":"\\","":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := map[string]string{}
		_ = members(text, func(m member) error {
			var name string
			if json.Unmarshal([]byte(`"`+string(m.name)+`"`), &name) == nil {
				got[name] = string(m.value)
			}
			return nil
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q has the members %q, want %q", text, got, want)
		}
		for name, value := range want {
			if got[name] != string(value) {
				t.Errorf("%q: %q is %q, want %q", text, name, got[name], value)
			}
		}
	})
}
