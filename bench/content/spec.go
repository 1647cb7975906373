package content

import "fmt"

// The types of what is served.
const (
	ClusterURL  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteURL    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// limit bounds the numbers of keys and of resources: names have five digits.
const limit = 100_000

// maxSize bounds a resource, in bytes.
const maxSize = 64 << 20

// Spec is how much there is. All keys have the same.
type Spec struct {
	// Keys is the number of keys, from 1 to 100,000.
	Keys int `json:"keys"`
	// Clusters is the number of clusters of each key, from 1 to 100,000. There
	// are as many endpoint assignments.
	Clusters int `json:"clusters"`
	// Listeners is the number of listeners of each key, from 0 to 100,000. There
	// are as many route configurations.
	Listeners int `json:"listeners,omitempty"`
	// Size is the encoded size of each cluster in bytes, without the Any around
	// it; 0, or less than it takes, means without padding. Where padding makes
	// the length of a field longer by a byte, it can be short by as much.
	Size int `json:"size,omitempty"`
	// EndpointSize is the same for each endpoint assignment.
	EndpointSize int `json:"endpoint_size,omitempty"`
	// Equal says that all keys have the resources of the first one, under its names.
	Equal bool `json:"equal,omitempty"`
}

// Source is the key in which resources of key k have their names: that itself, or the first one if
// all keys are equal.
func (s *Spec) Source(k int) int {
	if s.Equal {
		return 0
	}
	return k
}

// Validate says what is wrong with a spec.
func (s *Spec) Validate() error {
	for _, f := range []struct {
		name          string
		got, min, max int
	}{
		{"keys", s.Keys, 1, limit},
		{"clusters", s.Clusters, 1, limit},
		{"listeners", s.Listeners, 0, limit},
		{"size", s.Size, 0, maxSize},
		{"endpoint size", s.EndpointSize, 0, maxSize},
	} {
		if f.got < f.min || f.got > f.max {
			return fmt.Errorf("%s: got %d, expected from %d to %d", f.name, f.got, f.min, f.max)
		}
	}
	return nil
}

// Types are the types of which there are resources, clusters first.
func (s *Spec) Types() []string {
	types := []string{ClusterURL, EndpointURL, ListenerURL, RouteURL}
	if s.Listeners == 0 {
		return types[:2]
	}
	return types
}

// Count is how many resources of a type each key has; 0 for other types.
func (s *Spec) Count(typeURL string) int {
	switch typeURL {
	case ClusterURL, EndpointURL:
		return s.Clusters
	case ListenerURL, RouteURL:
		return s.Listeners
	}
	return 0
}
