package resource

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestErroredNames: names of errors arrive as they were sent, as long as there are not too many of
// them, and each is valid UTF-8.
func TestErroredNames(t *testing.T) {
	names := make([]string, MaxErrored)
	for i := range names {
		names[i] = fmt.Sprint("name-", i)
	}
	var r Request
	if err := DecodeDeltaRequest(ErroredField(Errored{names, 1500 * time.Millisecond}), &r); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadErrored(r.Errored); err != nil || !slices.Equal(got.Names, names) || got.Age != 2*time.Second {
		t.Errorf("%d names of age %s were read, %v; expected %d of 2s", len(got.Names), got.Age, err, len(names))
	}
	for what, bad := range map[string][]string{"too many": slices.Concat(names, []string{"one more"}), "no text": {"\xff"}} {
		if err := DecodeDeltaRequest(ErroredField(Errored{Names: bad}), &r); err != nil {
			t.Errorf("%s: a client is refused for a field that is none of the protocol: %v", what, err)
		}
		if got, err := ReadErrored(r.Errored); err == nil {
			t.Errorf("%s: %d names were read", what, len(got.Names))
		}
		if rsp, err := DecodePeer(AppendPeerMark(AppendDelta(nil, &Message{Type: TypeOf(ClusterURL)}), PeerMark{Errored: Errored{Names: bad}})); err == nil {
			t.Errorf("%s: %d names were read in a response", what, len(rsp.Mark.Errored.Names))
		}
	}
}

// TestPeerMarkFields: each field of a mark is listed in [PeerResponseFields], by its name, and no
// two have the same number.
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
