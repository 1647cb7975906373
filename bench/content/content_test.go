package content

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// TestStamp holds that a stamp is found again wherever it stands, and that what
// only looks like one is passed over.
func TestStamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Stamp{
			Revision: rapid.Uint64().Draw(t, "revision"),
			At:       time.Unix(0, rapid.Int64Min(0).Draw(t, "nanos")),
		}
		before := rapid.SampledFrom([]string{"", "x", "xdsbench@", "xdsbench@xyz", "xdsbench@0123456789abcdef@no"}).Draw(t, "before")
		text := AppendStamp([]byte(before), want)
		if len(text) != len(before)+StampSize {
			t.Fatalf("the stamp is %q, expected %d bytes", text[len(before):], StampSize)
		}
		got, ok := FindStamp(append(text, "xx"...))
		if !ok || got.Revision != want.Revision || !got.At.Equal(want.At) {
			t.Fatalf("FindStamp(%q) = %v, %v, expected %v", text, got, ok, want)
		}
	})
	for _, none := range []string{"", "xdsbench", "xdsbench@0123456789abcdef@0123456789abcde", strings.Repeat("xdsbench@", 9)} {
		if s, ok := FindStamp([]byte(none)); ok {
			t.Errorf("FindStamp(%q) = %v, expected none", none, s)
		}
	}
}

// TestNames holds that names lead back to the key and the number.
func TestNames(t *testing.T) {
	spec := Spec{Keys: 2, Clusters: 1, Listeners: 1}
	for _, typeURL := range spec.Types() {
		for _, want := range [][2]int{{0, 0}, {12, 34}, {99_999, 99_999}} {
			name := Name(typeURL, want[0], want[1])
			if k, i, ok := ParseName(typeURL, name); !ok || k != want[0] || i != want[1] {
				t.Errorf("ParseName(%q) = %d, %d, %v, expected %v", name, k, i, ok, want)
			}
			if k, ok := FindKey([]byte("\x0a\x09key-\x00" + name)); !ok || k != want[0] {
				t.Errorf("FindKey of %q = %d, %v, expected %d", name, k, ok, want[0])
			}
		}
	}
	for _, bad := range []string{"", "key-00001", "key-00001/service-0001", "key-0001/service-000001", "key-00001/route-00001", "yek-00001/service-00001", "key--0001/service-00001"} {
		if k, i, ok := ParseName(ClusterURL, bad); ok {
			t.Errorf("ParseName(%q) = %d, %d, expected that it is refused", bad, k, i)
		}
	}
	for _, bad := range []string{"", "key-", "key-1234", "key-key-1234x"} {
		if k, ok := FindKey([]byte(bad)); ok {
			t.Errorf("FindKey(%q) = %d, expected none", bad, k)
		}
	}
}

// TestEqualKeys: where all keys are equal, each has the resources of the first one.
func TestEqualKeys(t *testing.T) {
	equal, own := Spec{Keys: 9, Clusters: 2, Listeners: 1, Equal: true}, Spec{Keys: 9, Clusters: 2, Listeners: 1}
	stamp := Stamp{Revision: 7, At: time.Unix(1, 2)}
	for _, typeURL := range own.Types() {
		first := own.Resource(typeURL, 0, 0, stamp)
		if got := equal.Resource(typeURL, 5, 0, stamp); !proto.Equal(got, first) || proto.Equal(own.Resource(typeURL, 5, 0, stamp), first) {
			t.Errorf("key 5 has %v, expected %v", got, first)
		}
		if got, want := equal.Names(typeURL, 5), own.Names(typeURL, 0); !slices.Equal(got, want) {
			t.Errorf("key 5 has the names %q, expected %q", got, want)
		}
	}
}

// TestMessages holds what is in resources: the name in the first field, one
// stamp, references to neighbours, and the size that was asked for.
func TestMessages(t *testing.T) {
	stamp := Stamp{Revision: 7, At: time.Unix(1, 2)}
	for _, size := range []int{0, 1, 150, 300, 1000, 20_000} {
		spec := Spec{Keys: 1, Clusters: 3, Listeners: 3, Size: size, EndpointSize: size}
		for _, typeURL := range spec.Types() {
			a := spec.Resource(typeURL, 4, 2, stamp)
			if a.GetTypeUrl() != typeURL {
				t.Fatalf("a resource of %s is packed as %s", typeURL, a.GetTypeUrl())
			}
			m, err := a.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(m, spec.Message(typeURL, 4, 2, stamp)) {
				t.Errorf("%s: the message is not what is packed", typeURL)
			}
			name := Name(typeURL, 4, 2)
			if !bytes.HasPrefix(a.GetValue(), append([]byte{10, byte(len(name))}, name...)) {
				t.Errorf("%s does not begin with its name", typeURL)
			}
			if got, ok := FindStamp(a.GetValue()); !ok || got.Revision != 7 || bytes.Count(a.GetValue(), []byte("xdsbench@")) != 1 {
				t.Errorf("%s: stamp %v, %v, expected one of revision 7", typeURL, got, ok)
			}
			// Each of at most five nested lengths can grow by a byte.
			if n := len(a.GetValue()); size >= 300 && (typeURL == ClusterURL || typeURL == EndpointURL) && (n > size || n < size-5) {
				t.Errorf("%s has %d bytes, expected %d", typeURL, n, size)
			}
		}
		if b := spec.Resource(ListenerURL, 4, 2, stamp).GetValue(); !bytes.Contains(b, []byte("key-00004/route-00002")) {
			t.Error("the listener does not refer to its routes")
		}
		if b := spec.Resource(RouteURL, 4, 2, stamp).GetValue(); !bytes.Contains(b, []byte("key-00004/service-00002")) {
			t.Error("the routes do not lead to a cluster")
		}
	}
}

// TestState holds which resources change: those whose turn it is, or all.
func TestState(t *testing.T) {
	s := NewState(Spec{Keys: 2, Clusters: 5, Listeners: 2}, time.Unix(0, 0))
	for i, tc := range []struct {
		change Change
		want   map[string][]int
	}{
		{Change{Kind: One}, map[string][]int{ClusterURL: {0}}},
		{Change{Kind: One}, map[string][]int{ClusterURL: {1}}},
		{Change{Kind: Burst, Resources: 4}, map[string][]int{ClusterURL: {2, 3, 4, 0}}},
		{Change{Kind: One, Type: EndpointURL}, map[string][]int{EndpointURL: {0}}},
		{Change{Kind: Full, Type: RouteURL}, map[string][]int{RouteURL: {0, 1}}},
		{Change{Kind: One}, map[string][]int{ClusterURL: {1}}},
		{Change{Kind: Full}, map[string][]int{
			ClusterURL: {2, 3, 4, 0, 1}, EndpointURL: {1, 2, 3, 4, 0}, ListenerURL: {0, 1}, RouteURL: {0, 1},
		}},
		{Change{Kind: One, Type: EndpointURL, ClusterEvery: 9}, map[string][]int{EndpointURL: {1}}},
		{Change{Kind: One, Type: EndpointURL, ClusterEvery: 9}, map[string][]int{ClusterURL: {2}}},
		{Change{Kind: One, Type: EndpointURL, ClusterEvery: 9}, map[string][]int{EndpointURL: {2}}},
	} {
		at := time.Unix(int64(i+1), 0)
		step, err := s.Next(tc.change, at)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Stamp{Revision: uint64(i + 1), At: at}); step.Stamp != want || s.Revision() != want {
			t.Errorf("change %d has stamp %v, expected %v", i, step.Stamp, want)
		}
		if len(step.Changed) != len(tc.want) {
			t.Errorf("change %d changes %v, expected %v", i, step.Changed, tc.want)
		}
		for typeURL, numbers := range tc.want {
			if !slices.Equal(step.Changed[typeURL], numbers) {
				t.Errorf("change %d changes %v of %s, expected %v", i, step.Changed[typeURL], typeURL, numbers)
			}
			for _, n := range numbers {
				if s.Stamp(typeURL, n) != step.Stamp {
					t.Errorf("change %d: %s %d has stamp %v", i, typeURL, n, s.Stamp(typeURL, n))
				}
			}
		}
	}
}

// TestOneKey holds that keys change in turn where a change is of one.
func TestOneKey(t *testing.T) {
	s := NewState(Spec{Keys: 3, Clusters: 2}, time.Unix(0, 0))
	for _, want := range [][]int{{1}, {2}, {0}, {1}} {
		step, err := s.Next(Change{Kind: One, OneKey: true}, time.Unix(1, 0))
		if err != nil || !slices.Equal(step.Keys, want) {
			t.Errorf("revision %d changes keys %v, expected %v (%v)", step.Stamp.Revision, step.Keys, want, err)
		}
	}
	if step, err := s.Next(Change{Kind: One}, time.Unix(1, 0)); err != nil || len(step.Keys) != 3 {
		t.Errorf("keys %v change, expected all (%v)", step.Keys, err)
	}
}

// TestValidate holds that what cannot be is refused, and changes nothing.
func TestValidate(t *testing.T) {
	good := Spec{Keys: 1, Clusters: 3}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, s := range map[string]Spec{
		"keys: got 0, expected from 1 to 100000": {Clusters: 1},
		"clusters: got 100001":                   {Keys: 1, Clusters: 100_001},
		"listeners: got -1":                      {Keys: 1, Clusters: 1, Listeners: -1},
		"size: got -1":                           {Keys: 1, Clusters: 1, Size: -1},
		"endpoint size: got 67108865":            {Keys: 1, Clusters: 1, EndpointSize: 64<<20 + 1},
	} {
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, expected %s", s, err, want)
		}
	}
	state := NewState(good, time.Unix(0, 0))
	for want, c := range map[string]Change{
		`change: got kind "", expected one`:                            {},
		"change: got a burst of 4 resources, expected from 1 to 3":     {Kind: Burst, Resources: 4},
		"change: got a cluster every 2 changes of kind full":           {Kind: Full, ClusterEvery: 2},
		"change: got a cluster every -1 changes of kind one":           {Kind: One, ClusterEvery: -1},
		"change: got a burst of 0 resources":                           {Kind: Burst},
		"change: got 2 resources, expected none for kind full":         {Kind: Full, Resources: 2},
		`change: there are no resources of type "` + ListenerURL + `"`: {Kind: One, Type: ListenerURL},
		`change: there are no resources of type "cds"`:                 {Kind: One, Type: "cds"},
	} {
		if _, err := state.Next(c, time.Unix(1, 0)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, expected %s", c, err, want)
		}
	}
	if state.Revision().Revision != 0 {
		t.Error("a change that was refused counts")
	}
}
