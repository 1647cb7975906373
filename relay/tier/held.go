package tier

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/cespare/xxhash/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/shard/lastgood"
)

// A node that lacks content of a key, while nothing comes from the origin, asks the other
// nodes for what they hold of it (see search). A node answers from its own memory, or its
// own disk, and asks nobody for that: one hop. So questions cannot go round, and what is
// passed on keeps the time at which it was last confirmed.

const (
	// heldPath is the question, with the key, and for each type that the asking node has
	// content of the digest of that.
	heldPath = "held"
	paramKey = "key"
	// haveParam is followed by a type URL.
	paramHave = "have:"
	// keepMethod hands over what a node that ends holds of a key.
	keepMethod = "Keep"
)

// Holding is what one node holds of a key.
type Holding struct {
	Key string `json:"key"`
	// Node represents the key upstream; only in what is handed over.
	Node []byte `json:"node,omitempty"`
	// Clock is the time of the sender, so that clocks of nodes may differ.
	Clock time.Time     `json:"clock"`
	Types []HeldContent `json:"types"`
}

// HeldContent is what a node holds of one type.
type HeldContent struct {
	Type string `json:"type"`
	// AsOf is when the node last knew that the origin serves that, by its clock.
	AsOf time.Time `json:"as_of"`
	// Behind says that the tier head proves that there is newer content.
	Behind bool `json:"behind,omitempty"`
	// Record is what [lastgood.Encode] made of it.
	Record []byte `json:"record"`
}

// holdingOf writes down what is held, but for the types of which the other node has just
// the same.
func holdingOf(key string, all []cache.Kept, have url.Values, now time.Time) Holding {
	h := Holding{Key: key, Clock: now}
	for i := range all {
		k := &all[i]
		if theirs := have.Get(paramHave + k.Type.URL); theirs != "" && theirs == digestOf(k) {
			continue
		}
		h.Types = append(h.Types, HeldContent{Type: k.Type.URL, AsOf: k.AsOf, Behind: k.Edition.Behind, Record: lastgood.Encode(key, now, *k)})
	}
	return h
}

// digestOf stands for the content of k, and for the versions that clients are told of it.
func digestOf(k *cache.Kept) string {
	var d resource.Digest
	var versions uint64
	for _, one := range k.Resources {
		d = d.Add(one.Resource.Member())
		versions += xxhash.Sum64String(one.Resource.Key + "\x00" + one.Resource.Version)
	}
	return fmt.Sprintf("%x-%x-%t", d, versions, k.Wildcard)
}

// kept reads what another node wrote down, by this node's clock.
func (h *Holding) kept(now time.Time) (all []cache.Kept, err error) {
	ahead := now.Sub(h.Clock)
	for _, one := range h.Types {
		k, _, err := lastgood.Decode(one.Record, h.Key, one.Type)
		if err != nil {
			return nil, fmt.Errorf("type %s: %w", one.Type, err)
		}
		k.AsOf, k.Edition.Behind = one.AsOf.Add(ahead), one.Behind
		for i := range k.Resources {
			if ends := &k.Resources[i].Expires; !ends.IsZero() {
				*ends = ends.Add(ahead)
			}
		}
		all = append(all, k)
	}
	return all, nil
}

// answerHeld answers what this node holds of a key.
func (t *Tier) answerHeld(ctx context.Context, query url.Values) (any, error) {
	key := query.Get(paramKey)
	if t.cfg.Held == nil {
		return Holding{Key: key}, nil
	}
	return holdingOf(key, t.cfg.Held(ctx, key), query, time.Now()), nil
}

// heldQuestion asks for what others hold beyond what this node has.
func heldQuestion(key string, own []cache.Kept) string {
	query := url.Values{paramKey: {key}}
	for i := range own {
		query.Set(paramHave+own[i].Type.URL, digestOf(&own[i]))
	}
	return heldPath + "?" + query.Encode()
}

// readHeld reads the answer.
func readHeld(text []byte, key string) ([]cache.Kept, error) {
	var h Holding
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, err
	}
	if h.Key != key {
		return nil, fmt.Errorf("the answer is about the key %q, expected %q", h.Key, key)
	}
	return h.kept(time.Now())
}

// takeOver keeps what a node that ends has handed over.
func (t *Tier) takeOver(text []byte) error {
	if t.cfg.Adopt == nil {
		return status.Error(codes.Unimplemented, "this node keeps nothing for others")
	}
	var h Holding
	var node corev3.Node
	err := json.Unmarshal(text, &h)
	if err == nil {
		err = proto.Unmarshal(h.Node, &node)
	}
	if err == nil && (h.Key == "" || len(h.Key) > aggregation.MaxKeyLen) {
		err = fmt.Errorf("a key of %d bytes, expected 1 to %d", len(h.Key), aggregation.MaxKeyLen)
	}
	var all []cache.Kept
	if err == nil {
		all, err = h.kept(time.Now())
	}
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "what is handed over cannot be read: %v", err)
	}
	t.cfg.Adopt(aggregation.Key(h.Key), &node, all)
	return nil
}
