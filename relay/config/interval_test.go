package config

import (
	"maps"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestMinIntervals holds for which types downstream.min_interval counts: a short name stands for the type
// in either version of the protocol, a URL for itself, and 0s for none.
func TestMinIntervals(t *testing.T) {
	const v2 = "type.googleapis.com/envoy.api.v2.Cluster"
	for text, want := range map[string]map[string]time.Duration{
		"":                             {},
		"Cluster=0s":                   {},
		"Cluster=10ms":                 {resource.ClusterURL: 10 * time.Millisecond, v2: 10 * time.Millisecond},
		v2 + "=5s":                     {v2: 5 * time.Second},
		"Cluster=1s,VirtualHost=200ms": {resource.ClusterURL: time.Second, v2: time.Second, resource.VirtualHostURL: 200 * time.Millisecond, resource.VirtualHostV2URL: 200 * time.Millisecond},
	} {
		cfg, err := Load(Input{Env: []string{"XDSRELAY_DOWNSTREAM_MIN_INTERVAL=" + text}, WithoutUpstream: true})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := cfg.Downstream.MinIntervals(); !maps.Equal(got, want) {
			t.Errorf("%q means %v, expected %v", text, got, want)
		}
	}
}
