// Package terms is what the nodes of a tier must have in common, so that a client gets the
// same from each of them: who it is taken for, what it may see, where that comes from. Nodes
// that differ in it serve on, since a new configuration does not come to all at once; but
// it is told. Pure.
//
// What is compared is nobody's business who is no node of the tier. So it goes over the
// peer port alone, as hashes with a salt that the asker makes up for each question: they
// are worth nothing beside the answers of others to the same question.
package terms

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
)

// The parts, called by the section of the configuration that each is about.
const (
	partAggregation = "aggregation"
	partAuthorize   = "authorization"
	partOrigin      = "upstream"
	partAddresses   = "upstream.addresses"
	partGuard       = "removal_guard"
	partLastGood    = "last_known_good"
	partRollout     = "rollout"
	partTier        = "tier"
)

// Parts are all parts that there are, in order.
func Parts() []string {
	return []string{partAggregation, partAuthorize, partOrigin, partAddresses, partGuard, partLastGood, partRollout, partTier}
}

// Terms are the parts, each in a form that is the same for the same meaning.
type Terms map[string][]byte

// Of are those of a configuration, and of the marks of the keys of last_known_good as they are
// now. What only one node has to know, such as ports, limits and files, is left out; so
// are directories, which are places on a machine, and addresses where nodes may have their
// own.
func Of(cfg *config.Config, marks []string) Terms {
	type origin struct {
		Name, Variant, Transport          string
		Directory                         bool
		Types, Authorities, SeparateNames []string
	}
	var origins []origin
	var addresses [][]string
	for _, o := range cfg.AllUpstreams() {
		one := origin{Name: o.Name, Directory: o.Directory != "", Types: sorted(o.Types), Authorities: sorted(o.Authorities), SeparateNames: sorted(o.SeparateNames)}
		if !one.Directory {
			one.Variant, one.Transport = string(o.Variant), string(o.XDSVersion)
		}
		origins, addresses = append(origins, one), append(addresses, sorted(o.Addresses))
	}
	t := Terms{
		partAggregation: written(struct {
			Rules []aggregation.Rule
			Types []string
		}{cfg.Aggregation.Rules, sorted(cfg.Aggregation.PrivateTypes)}),
		partAuthorize: written(append([]authorize.Rule{}, cfg.Authorization.Policy()...)),
		partOrigin:    written(origins),
		partGuard:     written([]any{cfg.RemovalGuard.MaxPercent, cfg.RemovalGuard.Hold}),
		partRollout:   written(cfg.Rollout),
		partTier:      written(cfg.Tier.Lease),
	}
	if !cfg.Tier.OwnUpstreamAddresses {
		t[partAddresses] = written(addresses)
	}
	if cfg.LastKnownGood.Store == config.StoreRedis {
		t[partLastGood] = written([]any{cfg.LastKnownGood.Store, marks})
	} else {
		t[partLastGood] = written([]any{cfg.LastKnownGood.Store}) // what is kept is each one's own
	}
	return t
}

// sorted is a list in which the order says nothing.
func sorted(list []string) []string {
	return slices.Sorted(slices.Values(list))
}

// written is a value in a form for comparison.
func written(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // cannot be: these are texts, numbers and lists
		return fmt.Appendf(nil, "%v", v)
	}
	return text
}

// LeastSalt is how many bytes a salt has at least.
const LeastSalt = 16

// Sealed are the terms as they are told to who asked with a salt.
func (t Terms) Sealed(salt []byte) map[string]string {
	out := make(map[string]string, len(t))
	for part, text := range t {
		h := hmac.New(sha256.New, salt)
		fmt.Fprintf(h, "%s\x00%s", part, text)
		out[part] = hex.EncodeToString(h.Sum(nil)[:16])
	}
	return out
}

// Difference is a node that differs from most of the others that were asked.
type Difference struct {
	Node string `json:"node"`
	// Parts are those in which it does.
	Parts []string `json:"parts"`
	// From is one of the nodes that it differs from.
	From string `json:"from"`
	// Since is when that was first seen.
	Since time.Time `json:"since"`
}

// Same reports whether d and o say the same, whenever that was first seen.
func (d *Difference) Same(o *Difference) bool {
	return d.Node == o.Node && slices.Equal(d.Parts, o.Parts)
}

// Compare finds the nodes that differ from most others in a part, by what all were told
// to the same salt. Of as many on both sides, the one with the first name by the alphabet
// is right. A part that a node does not tell, as one of another version, is not compared.
func Compare(answers map[string]map[string]string) (all []Difference) {
	nodes := make([]string, 0, len(answers))
	for node := range answers {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	for _, part := range Parts() {
		count, first := map[string]int{}, map[string]string{}
		usual := ""
		for _, node := range nodes {
			seal := answers[node][part]
			if seal == "" {
				continue
			}
			if count[seal]++; count[seal] == 1 {
				first[seal] = node
			}
			if usual == "" {
				usual = seal
			}
		}
		for _, node := range nodes {
			if seal := answers[node][part]; seal != "" && (count[seal] > count[usual] || count[seal] == count[usual] && first[seal] < first[usual]) {
				usual = seal
			}
		}
		for _, node := range nodes {
			if seal := answers[node][part]; seal != "" && seal != usual {
				all = noted(all, node, part, first[usual])
			}
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return slices.Compare([]string{a.Node}, []string{b.Node}) })
	return all
}

// noted adds a part in which a node differs.
func noted(all []Difference, node, part, from string) []Difference {
	if i := slices.IndexFunc(all, func(d Difference) bool { return d.Node == node }); i >= 0 {
		all[i].Parts = append(all[i].Parts, part)
		return all
	}
	return append(all, Difference{Node: node, Parts: []string{part}, From: from})
}
