package cache

import (
	"encoding/json"
	"testing"
)

// TestReceiveDamaged: what another node has not made is an error, and never a panic.
func TestReceiveDamaged(t *testing.T) {
	for name, shared := range map[string]SharedView{
		"no message":  {TypeURL: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Replaced: []byte{0xff}},
		"no resource": {TypeURL: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Replaced: []byte{2<<3 | 2, 1, 0xff}},
	} {
		if r, err := new(Group).Receive([]SharedView{shared}); err == nil {
			t.Errorf("%s: %+v", name, r.views)
		}
	}
}

// FuzzReceive decodes overlays of other nodes.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`[{"type_url":"type.googleapis.com/envoy.config.cluster.v3.Cluster","replaced":"EgA=","absent":["a"],"members":["a"],"origin":{"Live":1}}]`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		var shared []SharedView
		if json.Unmarshal(text, &shared) == nil {
			if r, err := new(Group).Receive(shared); err == nil {
				r.Candidate("r")
				r.IsPromoted()
			}
		}
	})
}
