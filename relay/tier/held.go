package tier

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/shard"
	"xdsrelay/shard/lastgood"
)

// A node that lacks content of a key while the origin does not answer asks the other nodes for what
// they hold (see search). A node answers from its own memory or disk and never asks a third one
// (one hop). So questions cannot circulate, and content that is passed on keeps the time at which
// it was last confirmed.

const (
	// heldPath is this question, with the key and, for each type of which the asking node has
	// content, the digest of that content.
	heldPath = "held"
	paramKey = "key"
	paramLeg = "leg"
	// paramHave is followed by a type URL.
	paramHave = "have:"
	// adoptPath makes a node fetch what a node that ends holds of a key, and keep it. paramFrom
	// names the node that ends, and paramAt is its peer address: other nodes may not know it as a
	// member, where it could not renew its lease.
	adoptPath = "adopt"
	paramFrom = "from"
	paramAt   = "at"
)

// Holding is what one node holds of a key.
type Holding struct {
	Key string `json:"key"`
	// Node represents the key upstream.
	Node []byte `json:"node,omitempty"`
	// Clock is the time of day at the sender, which corrects for clocks that differ: only the age of
	// the other times counts.
	Clock time.Time     `json:"clock"`
	Types []HeldContent `json:"types"`
}

// HeldContent is what a node holds of one type.
type HeldContent struct {
	Type string `json:"type"`
	// AsOf is when the node last knew that the origin serves this content, by its clock.
	AsOf time.Time `json:"as_of"`
	// Behind means that the tier head proves that there is newer content.
	Behind bool `json:"behind,omitempty"`
	// Recorded means that this is a record of last known good state that the node has not
	// compared with the tier head.
	Recorded bool `json:"recorded,omitempty"`
	// Head is the digest of the tier head that the node compared the content with, if any.
	Head resource.Digest `json:"head,omitzero"`
	// ErroredSince is since when, by the clock of the node, clients may have been sent errors
	// that they still remember; zero if that is not known.
	ErroredSince time.Time `json:"errored_since,omitzero"`
	// HeldBack means that the removal guard of the node holds back removals, and HoldUntil until
	// when, by its clock; zero means until an operator releases them.
	HeldBack  bool      `json:"held_back,omitempty"`
	HoldUntil time.Time `json:"hold_until,omitzero"`
	// HeldAsOf is the last time at which the control plane is known to have served what is held
	// back, by the clock of the node; zero if that is not known.
	HeldAsOf time.Time `json:"held_as_of,omitzero"`
	// Unjudged means that the removal guard had nothing to compare the set with.
	Unjudged bool `json:"unjudged,omitempty"`
	// Absent are names that clients of the node subscribe to and that do not exist.
	Absent []string `json:"absent,omitempty"`
	// Record is the content, encoded by [lastgood.Encode].
	Record []byte `json:"record"`
}

// holdingOf encodes what is held. It leaves out types of which the other node has the same content,
// unless removals are held back.
func holdingOf(key string, all []cache.Snapshot, have url.Values, clock shard.Clock) Holding {
	h := Holding{Key: key, Clock: clock.Now()}
	for i := range all {
		k := &all[i]
		if theirs := have.Get(paramHave + k.Type.URL); !k.HeldBack && theirs != "" && theirs == digestOf(k) {
			continue
		}
		h.Types = append(h.Types, HeldContent{Type: k.Type.URL, AsOf: clock.Stamp(k.AsOf), Behind: k.Outdated, Recorded: k.Recorded, Head: k.HeadDigest, HeldBack: k.HeldBack, Unjudged: k.Unjudged, HoldUntil: clock.Stamp(k.HoldUntil), HeldAsOf: clock.Stamp(k.HeldAsOf), Absent: k.Absent, ErroredSince: clock.Stamp(erroredSince(k)), Record: lastgood.EncodeNow(clock, key, *k)})
	}
	return h
}

// erroredSince returns since when clients may have been sent any of the errors that they still
// remember.
func erroredSince(k *cache.Snapshot) (since time.Time) {
	first := true
	for _, one := range k.Resources {
		if one.Errored && (first || one.ErroredSince.Before(since)) { // zero is before all
			since, first = one.ErroredSince, false
		}
	}
	return since
}

// digestOf returns a digest of the content of k, of the versions that clients are sent, and of the
// names that do not exist.
func digestOf(k *cache.Snapshot) string {
	var d resource.Digest
	var versions uint64
	for _, one := range k.Resources {
		d = d.Add(one.Resource.Member())
		versions += xxhash.Sum64String(one.Resource.Key + "\x00" + one.Resource.Version)
	}
	for _, name := range k.Absent { // a third node may hold these
		versions += xxhash.Sum64String(name + "\x00\x00")
	}
	return fmt.Sprintf("%x-%x-%t", d, versions, k.Wildcard)
}

// kept decodes what another node encoded, with moments of this process as times.
func (h *Holding) kept(now time.Time) (all []cache.Snapshot, err error) {
	moment := func(stamp time.Time) time.Time {
		if stamp.IsZero() {
			return stamp
		}
		return now.Add(stamp.Sub(h.Clock))
	}
	for _, one := range h.Types {
		k, _, err := lastgood.Decode(one.Record, h.Key, one.Type)
		if err != nil {
			return nil, fmt.Errorf("type %s: %w", one.Type, err)
		}
		k.AsOf, k.Outdated, k.Recorded = shard.Past(moment(one.AsOf), now), one.Behind, one.Recorded
		k.HeadDigest, k.HeldBack, k.Unjudged, k.Absent = one.Head, one.HeldBack, one.Unjudged, one.Absent
		k.HoldUntil, k.HeldAsOf = moment(one.HoldUntil), shard.Past(moment(one.HeldAsOf), now)
		for i := range k.Resources {
			r := &k.Resources[i]
			if r.Expires = moment(r.Expires); r.Errored {
				r.ErroredSince = moment(one.ErroredSince)
			}
		}
		all = append(all, k)
	}
	return all, nil
}

// checkKey returns an error for what cannot be a key.
func checkKey(key string) error {
	if key == "" || len(key) > aggregation.MaxKeyLen {
		return status.Errorf(codes.InvalidArgument, "%s: %d bytes, expected a key of 1 to %d", paramKey, len(key), aggregation.MaxKeyLen)
	}
	return nil
}

// answerHeld answers heldPath.
func (t *Tier) answerHeld(ctx context.Context, query url.Values) (any, error) {
	key := query.Get(paramKey)
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if t.cfg.Held == nil {
		return Holding{Key: key}, nil
	}
	node, all := t.cfg.Held(ctx, key)
	h := holdingOf(key, all, query, t.cfg.Clock)
	var err error
	h.Node, err = proto.Marshal(node)
	return h, err
}

// heldQuestion returns the question for content that this node does not hold itself.
func heldQuestion(key string, own []cache.Snapshot) string {
	query := url.Values{paramKey: {key}}
	for i := range own {
		query.Set(paramHave+own[i].Type.URL, digestOf(&own[i]))
	}
	return heldPath + "?" + query.Encode()
}

// readHeld decodes the answer to heldPath.
func readHeld(text []byte, key string) (h Holding, all []cache.Snapshot, err error) {
	if err := json.Unmarshal(text, &h); err != nil {
		return h, nil, err
	}
	if h.Key != key {
		return h, nil, fmt.Errorf("the answer is about the key %q, expected %q", h.Key, key)
	}
	all, err = h.kept(time.Now())
	return h, all, err
}

// answerAdopt answers adoptPath.
func (t *Tier) answerAdopt(ctx context.Context, query url.Values) (any, error) {
	if t.cfg.Adopt == nil || t.cfg.Peers == nil {
		return nil, status.Error(codes.Unimplemented, "this node stores no state for other nodes")
	}
	key := query.Get(paramKey)
	if err := checkKey(key); err != nil {
		return nil, err
	}
	from, err := t.handsOver(query.Get(paramFrom), query.Get(paramAt))
	if err != nil {
		return nil, err
	}
	text, err := t.cfg.Peers.Ask(ctx, from, heldQuestion(key, nil))
	if err != nil {
		return nil, err
	}
	h, all, err := readHeld(text, key)
	if err != nil {
		return nil, err
	}
	var node corev3.Node
	if err := proto.Unmarshal(h.Node, &node); err != nil {
		return nil, err
	}
	t.cfg.Adopt(aggregation.Key(key), &node, all)
	return len(all), nil
}

// handsOver returns the node from which a question asks this node to fetch content. The address of a
// member is the one in the view. For any other node the question must state the address, which counts
// only if the peer port accepts nodes of the tier alone: otherwise everybody who reaches that port
// could name the source of what clients are sent.
func (t *Tier) handsOver(name, address string) (from shard.Member, err error) {
	members := t.cfg.Members.View().Members()
	if i := slices.IndexFunc(members, func(m shard.Member) bool { return m.Name == name && !t.IsSelf(m) }); i >= 0 {
		return members[i], nil
	}
	from = shard.Member{Name: name, Peer: address}
	switch {
	case name == "" || name == t.Self().Name:
		return from, status.Errorf(codes.InvalidArgument, "%s: expected the name of another node of the tier", paramFrom)
	case !t.cfg.PeersProven:
		return from, status.Errorf(codes.PermissionDenied, "%s: expected the name of another node of the tier, since the peer port of this node requires neither a token nor certificates", paramFrom)
	case !shard.IsAddress(address):
		return from, status.Errorf(codes.InvalidArgument, "%s: expected the name of another node of the tier, or the peer address of the node as host:port in %s", paramFrom, paramAt)
	}
	return from, nil
}
