package cache

import (
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Of tells which key and which type the subscription is about.
func (s *Subscription) Of() (aggregation.Key, *resource.Type) {
	return s.table.group.Key, s.table.Type
}
