package conformance

import (
	"fmt"

	"github.com/goccy/go-yaml"
)

// mergeYAML lays one document over another: maps are merged, all else is
// replaced.
func mergeYAML(base, more string) ([]byte, error) {
	var a, b map[string]any
	if err := yaml.Unmarshal([]byte(base), &a); err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	if err := yaml.Unmarshal([]byte(more), &b); err != nil {
		return nil, err
	}
	// The section upstream is the shorthand for the first of a list.
	if list, ok := b["upstreams"].([]any); ok && len(list) > 0 {
		first, _ := list[0].(map[string]any)
		base, _ := a["upstream"].(map[string]any)
		delete(a, "upstream")
		merge(base, first)
		list[0] = base
	}
	merge(a, b)
	return yaml.Marshal(a)
}

func merge(into, from map[string]any) {
	for k, v := range from {
		inner, ok := v.(map[string]any)
		outer, was := into[k].(map[string]any)
		if ok && was {
			merge(outer, inner)
			continue
		}
		into[k] = v
	}
}
