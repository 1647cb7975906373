package resource

import (
	"reflect"
	"strings"
	"testing"
)

// TestPeerMarkFields: each field of a mark is one of [PeerResponseFields], by its name, and
// no two have the same number.
func TestPeerMarkFields(t *testing.T) {
	listed := make(map[string]bool)
	numbers := make(map[int32]string)
	for _, f := range append(PeerResponseFields(), PeerRequestFields()...) {
		if other := numbers[int32(f.Number)]; other != "" {
			t.Errorf("%s and %s both have the number %d", f.Name, other, f.Number)
		}
		numbers[int32(f.Number)] = f.Name
		listed[f.Name] = true
	}
	mark := reflect.TypeFor[PeerMark]()
	for field := range mark.Fields() {
		if name := strings.ToLower(field.Name); !listed[name] {
			t.Errorf("PeerMark.%s is not read from any of PeerResponseFields", field.Name)
		}
	}
	if got, want := len(PeerResponseFields()), mark.NumField(); got != want {
		t.Errorf("%d fields are read, and PeerMark has %d", got, want)
	}
}
