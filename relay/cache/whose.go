package cache

import (
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Of returns the key and the type of the subscription.
func (s *Subscription) Of() (aggregation.Key, *resource.Type) {
	return s.table.group.Key, s.table.Type
}
