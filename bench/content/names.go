package content

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	keyPrefix = "key-"
	digits    = 5
	keyLen    = len(keyPrefix) + digits
)

// The second parts of names, by type.
const (
	servicePart  = "/service-"
	listenerPart = "/listener-"
	routePart    = "/route-"
)

// KeyName is the name of key k, which its clients have as their node's cluster.
func KeyName(k int) string { return fmt.Sprintf("%s%0*d", keyPrefix, digits, k) }

// NodeID is the node id of client n.
func NodeID(n int) string { return fmt.Sprintf("client-%07d", n) }

// Name is the name of resource i of a type in key k. Clusters and endpoints of
// the same number have the same name. It is empty for other types.
func Name(typeURL string, k, i int) string {
	var part string
	switch typeURL {
	case ClusterURL, EndpointURL:
		part = servicePart
	case ListenerURL:
		part = listenerPart
	case RouteURL:
		part = routePart
	default:
		return ""
	}
	return fmt.Sprintf("%s%s%0*d", KeyName(k), part, digits, i)
}

// Names are the names of all resources of a type in key k.
func (s *Spec) Names(typeURL string, k int) []string {
	names := make([]string, s.Count(typeURL))
	for i := range names {
		names[i] = Name(typeURL, s.Source(k), i)
	}
	return names
}

// ParseName returns the key and the number of a resource of a type by its name,
// and false for a name that [Name] does not give.
func ParseName(typeURL, name string) (k, i int, ok bool) {
	if len(name) < keyLen+digits {
		return 0, 0, false
	}
	k, err1 := strconv.Atoi(strings.TrimPrefix(name[:keyLen], keyPrefix))
	i, err2 := strconv.Atoi(name[len(name)-digits:])
	return k, i, err1 == nil && err2 == nil && k >= 0 && i >= 0 && Name(typeURL, k, i) == name
}

// FindKey returns the first key that a message names, in whatever field, and
// false where it names none.
func FindKey(message []byte) (k int, ok bool) {
	for {
		at := bytes.Index(message, []byte(keyPrefix))
		if at < 0 || len(message) < at+keyLen {
			return 0, false
		}
		message = message[at:]
		if k, err := strconv.ParseUint(string(message[len(keyPrefix):keyLen]), 10, 32); err == nil {
			return int(k), true
		}
		message = message[len(keyPrefix):]
	}
}
