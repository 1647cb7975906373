package resource

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"
)

// TestEarlierOrder: what a response means does not depend on what was received before, nor on the order
// of that, whatever was added, removed, moved or changed since, and for invalid resources and names that
// appear twice as well. Nothing is looked up where the order is the same.
func TestEarlierOrder(t *testing.T) {
	type one struct {
		name    int
		content string
	}
	encode := func(t rapid.TB, all []one) []byte {
		msg := &discoveryv3.DiscoveryResponse{TypeUrl: ClusterURL, VersionInfo: "1", Nonce: "1"}
		for _, o := range all {
			name := fmt.Sprint("cluster-", o.name)
			body := pack(t, &clusterv3.Cluster{Name: name, AltStatName: o.content})
			switch o.content {
			case "wrapped":
				body = pack(t, &discoveryv3.Resource{Name: name, Resource: pack(t, &clusterv3.Cluster{Name: name})})
			case "renamed":
				body = pack(t, &discoveryv3.Resource{Name: name, Resource: pack(t, &clusterv3.Cluster{Name: "cluster-1"})})
			case "nameless":
				body = pack(t, &clusterv3.Cluster{AltStatName: name})
			case "another type":
				body = pack(t, &listenerv3.Listener{Name: name})
			case "malformed":
				body = &anypb.Any{TypeUrl: ClusterURL, Value: []byte{0x0a}}
			}
			msg.Resources = append(msg.Resources, body)
		}
		return marshal(t, msg)
	}
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SampledFrom([]string{"a", "a", "b", "b", "wrapped", "renamed", "nameless", "another type", "malformed"})
		var before []one
		for i := range rapid.SampledFrom([]int{5, 20, 600}).Draw(t, "resources") {
			before = append(before, one{i, "a"})
		}
		for range rapid.IntRange(0, 3).Draw(t, "special") {
			before[rapid.IntRange(0, len(before)-1).Draw(t, "place")].content = content.Draw(t, "content")
		}
		after := slices.Clone(before)
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			if len(after) == 0 {
				break
			}
			i, j := rapid.IntRange(0, len(after)-1).Draw(t, "i"), rapid.IntRange(0, len(after)-1).Draw(t, "j")
			switch rapid.SampledFrom([]string{"add", "remove", "move", "change", "twice", "shuffle"}).Draw(t, "edit") {
			case "add":
				after = slices.Insert(after, i, one{1000 + j, content.Draw(t, "content")})
			case "remove":
				after = slices.Delete(after, min(i, j), max(i, j))
			case "move":
				o := after[i]
				after = slices.Delete(after, i, i+1)
				after = slices.Insert(after, min(j, len(after)), o)
			case "change":
				after[i].content = content.Draw(t, "content")
			case "twice":
				after = slices.Insert(after, i, after[j])
			case "shuffle":
				after = rapid.Permutation(after).Draw(t, "order")
			}
		}
		was, err := DecodeSotW(encode(t, before), nil)
		if err != nil {
			t.Fatal(err)
		}
		byName, looked := make(map[string]*Resource), 0
		for _, r := range was.Resources {
			byName[r.Key] = r
		}
		order := slices.Clone(was.Resources)
		earlier := Earlier{
			Get: func(name []byte) *Resource { looked++; return byName[string(name)] },
			At:  func(place int) *Resource { return order[place] }, Places: len(order),
		}
		for range rapid.IntRange(0, 3).Draw(t, "gone") {
			if len(order) > 0 {
				order[rapid.IntRange(0, len(order)-1).Draw(t, "which")] = nil
			}
		}
		wire := encode(t, after)
		want, err := DecodeSotW(wire, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeSotW(wire, func(*Type) Earlier { return earlier })
		//nolint:govet // the errors compared are our own, made of texts
		if err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%+v became %+v, %v", want, got, err)
		}
		if slices.Equal(before, after) && !slices.Contains(order, nil) && len(was.Invalid) == 0 && looked > 6 {
			t.Fatalf("%d of %d are looked up", looked, len(after))
		}
	})
}
