package ops

import (
	"strings"

	"xdsrelay/fanout"
	"xdsrelay/fanout/limit"
)

// usage is what clients use of limits.
type usage struct {
	peers                map[string]struct{} // addresses of connections
	connections, streams map[string]int      // in total (""), by source and by identity
	keys                 map[string]struct{}
	ownKeys              map[[2]string]struct{} // of each source or identity
}

// Prefixes of the owners in usage.
const (
	ofSource   = "s"
	ofIdentity = "i"
)

func newUsage() *usage {
	return &usage{map[string]struct{}{}, map[string]int{}, map[string]int{}, map[string]struct{}{}, map[[2]string]struct{}{}}
}

// add adds a client with n streams, by its ruling: one that is refused uses nothing, and one of
// which nothing is known uses its key of now.
func (u *usage) add(c fanout.Client, r fanout.Ruling, n int) {
	key := r.Key
	switch {
	case r.Kind == fanout.NotAllowed || r.Kind == fanout.NoKey:
		return
	case key == "":
		key = c.Key()
	}
	u.keys[key] = struct{}{}
	if r.Polls {
		return
	}
	owners, owner := []string{""}, ofIdentity+r.Identity
	if at := limit.SourceAt(c.Peer()); at != (limit.Source{}) {
		owners = append(owners, ofSource+at.String())
		if r.Identity == "" {
			owner = ofSource + at.String()
		}
	}
	if r.Identity != "" {
		owners = append(owners, ofIdentity+r.Identity)
	}
	_, known := u.peers[c.Peer()]
	u.peers[c.Peer()] = struct{}{}
	for _, o := range owners {
		if !known {
			u.connections[o]++
		}
		u.streams[o] += n
	}
	u.ownKeys[[2]string{owner, key}] = struct{}{}
}

// over returns the limits that are exceeded.
func (u *usage) over(node string, l CandidateLimits) (all []LimitHit) {
	keys := map[string]int{}
	for k := range u.ownKeys {
		if k[0] != ofIdentity { // a local socket has no limits
			keys[k[0]]++
		}
	}
	check := func(field string, most int, used map[string]int, prefix string) {
		hit := LimitHit{Node: node, Field: "limits." + field, Limit: most}
		for who, n := range used {
			if most == 0 || n <= most || prefix == "" != (who == "") || !strings.HasPrefix(who, prefix) {
				continue
			}
			hit.Others++
			name := strings.TrimPrefix(who, prefix)
			if n > hit.Used || n == hit.Used && name < hit.Who {
				hit.Used, hit.Who = n, name
			}
		}
		if hit.Others > 0 {
			hit.Others--
			all = append(all, hit)
		}
	}
	check("max_connections", l.Connections, u.connections, "")
	check("max_connections_per_source", l.ConnectionsPerSource, u.connections, ofSource)
	check("max_connections_per_identity", l.ConnectionsPerIdentity, u.connections, ofIdentity)
	check("max_streams", l.Streams, u.streams, "")
	check("max_streams_per_source", l.StreamsPerSource, u.streams, ofSource)
	check("max_streams_per_identity", l.StreamsPerIdentity, u.streams, ofIdentity)
	check("max_keys", l.Keys, map[string]int{"": len(u.keys)}, "")
	check("max_keys_per_identity", l.KeysPerIdentity, keys, ofSource)
	check("max_keys_per_identity", l.KeysPerIdentity, keys, ofIdentity)
	return all
}
