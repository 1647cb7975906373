package check

import (
	"testing"

	"xdsrelay/relay/robust/record"
)

// TestIsolated: a resource of another key is seen, whatever its name.
func TestIsolated(t *testing.T) {
	const of = "Isolated"
	foreign := record.Resource{Name: "a", Version: "v", Key: "other", Serial: 7}
	served := []record.Event{
		{Kind: record.OriginState, Key: "other", Type: clusterType, Resources: []record.Resource{foreign}},
		{Kind: record.OriginSent, Key: "other", Stream: 901, Type: clusterType, Resources: []record.Resource{foreign}},
	}
	mustBeFine(t, forge(t, of, start(served...)))
	mustFind(t, forge(t, of, start(append(served, got(1, clusterType, foreign))...)), `a client of key "k" was sent a of key "other"`)
}
