package origin

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"xdsrelay/bench/content"
)

// linear holds a cache for each key and type.
type linear struct {
	spec   *content.Spec
	caches map[string]*cachev3.LinearCache // by linearKey; fixed after construction
	mux    *cachev3.MuxCache
}

// newLinear makes caches without content, also of types that stay without.
func newLinear(spec *content.Spec) *linear {
	l := &linear{spec: spec, caches: make(map[string]*cachev3.LinearCache)}
	watched := make(map[string]cachev3.Cache)
	for k := range spec.Keys {
		for _, typeURL := range allTypes() {
			c := cachev3.NewLinearCache(typeURL)
			key := linearKey(content.KeyName(k), typeURL)
			l.caches[key], watched[key] = c, c
		}
	}
	l.mux = &cachev3.MuxCache{
		Classify:      func(r *cachev3.Request) string { return classify(r.GetNode(), r.GetTypeUrl()) },
		ClassifyDelta: func(r *cachev3.DeltaRequest) string { return classify(r.GetNode(), r.GetTypeUrl()) },
		Caches:        watched,
	}
	return l
}

func classify(node *corev3.Node, typeURL string) string { return linearKey(node.GetCluster(), typeURL) }

func linearKey(key, typeURL string) string { return key + " " + typeURL }

func (l *linear) watched() cachev3.Cache { return l.mux }

func (l *linear) apply(state *content.State, step content.Step) error {
	for _, k := range step.Keys {
		for typeURL, numbers := range step.Changed {
			update := make(map[string]types.Resource, len(numbers))
			for _, i := range numbers {
				update[content.Name(typeURL, l.spec.Source(k), i)] = l.spec.Message(typeURL, k, i, state.Stamp(typeURL, i))
			}
			key := linearKey(content.KeyName(k), typeURL)
			if err := l.caches[key].UpdateResources(update, nil); err != nil {
				return fmt.Errorf("cache %s: %w", key, err)
			}
		}
	}
	return nil
}
