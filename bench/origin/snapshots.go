package origin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"xdsrelay/bench/content"
)

// snapshots holds a snapshot for each key.
type snapshots struct {
	spec  *content.Spec
	cache cachev3.SnapshotCache
	now   []*cachev3.Snapshot // by key; never changed, only replaced
}

// keyOf tells a node's snapshot.
type keyOf struct{}

func (keyOf) ID(node *corev3.Node) string { return node.GetCluster() }

// newSnapshots makes a cache without content. It is not in ADS mode, in which
// it does not answer clients that name only some resources of a type. Types that
// stay without content have a version, or nobody would get an answer.
func newSnapshots(spec *content.Spec) *snapshots {
	s := &snapshots{spec: spec, cache: cachev3.NewSnapshotCache(false, keyOf{}, nil)}
	empty := &cachev3.Snapshot{}
	for _, typeURL := range allTypes() {
		empty.Resources[cachev3.GetResponseType(typeURL)].Version = "0"
	}
	s.now = slices.Repeat([]*cachev3.Snapshot{empty}, spec.Keys)
	return s
}

func (s *snapshots) watched() cachev3.Cache { return s.cache }

func (s *snapshots) apply(state *content.State, step content.Step) error {
	version := strconv.FormatUint(state.Revision().Revision, 10)
	for _, k := range step.Keys {
		old := s.now[k]
		next := &cachev3.Snapshot{Resources: old.Resources}
		for typeURL, numbers := range step.Changed {
			at := cachev3.GetResponseType(typeURL)
			items := maps.Clone(old.Resources[at].Items)
			if items == nil {
				items = make(map[string]types.ResourceWithTTL, s.spec.Count(typeURL))
			}
			for _, i := range numbers {
				items[content.Name(typeURL, s.spec.Source(k), i)] = types.ResourceWithTTL{
					Resource: s.spec.Message(typeURL, k, i, state.Stamp(typeURL, i)),
				}
			}
			next.Resources[at] = cachev3.Resources{Version: version, Items: items}
		}
		if err := s.cache.SetSnapshot(context.Background(), content.KeyName(k), next); err != nil {
			return fmt.Errorf("snapshot %s of %s: %w", version, content.KeyName(k), err)
		}
		s.now[k] = next
	}
	return nil
}
