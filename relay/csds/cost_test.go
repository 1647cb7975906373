package csds

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// verbose is a client that has said much about itself.
type verbose struct {
	fanout.Client // for what is not asked here
	id            string
	node          *corev3.Node
	resources     int
	nack          *fanout.Nack
}

func (v verbose) Key() string        { return "k" }
func (v verbose) ID() string         { return v.id }
func (v verbose) Peer() string       { return "127.0.0.1" }
func (v verbose) Node() *corev3.Node { return proto.CloneOf(v.node) }
func (v verbose) Rollout() *fanout.ClientRollout {
	return &fanout.ClientRollout{Revision: "r-1", Arm: "canary"}
}

func (v verbose) Resources(yield func(fanout.ResourceStatus) bool) {
	for i := range v.resources {
		r := fanout.ResourceStatus{Type: resource.TypeOf(resource.EndpointURL), Name: fmt.Sprint("r", i), State: fanout.Nacked, Nack: v.nack}
		if !yield(r) {
			return
		}
	}
}

// TestCostOfHostileClients holds that clients cannot make status expensive by what they
// say of themselves: it costs about as much as that of any others that say as much.
func TestCostOfHostileClients(t *testing.T) {
	if detector {
		t.Skip("the race detector multiplies what is measured here")
	}
	const clients, size = 100, 3800
	cost := func(text string) time.Duration {
		text = strings.Repeat(text, size/len(text))
		s := New(Config{Groups: func() []*cache.Group { return nil }, Clients: func() (all []fanout.Client) {
			for i := range clients {
				all = append(all, verbose{
					id: fmt.Sprint("c", i), resources: 20, nack: fanout.NewNack(time.Now(), fanout.NewReason(3, text), "1"),
					node: &corev3.Node{Id: fmt.Sprint("c", i), Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"m": structpb.NewStringValue(text)}}},
				})
			}
			return all
		}})
		best := time.Hour
		for range 3 {
			began := time.Now()
			if _, err := s.FetchClientStatus(context.Background(), &statusv3.ClientStatusRequest{}); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	// Texts that have to be searched cost up to 20 times as much; one whose cost grows with
	// the square of its length costs some thousand times as much.
	const most = 300
	plain := cost("a word, ")
	for _, hostile := range []string{"a:", "token=", `\"`, "://", "eyJ", "-----BEGIN A-----", "bearer ", "a.b-c_d="} {
		if took := cost(hostile); took > most*plain {
			t.Errorf("%d clients that repeat %q cost %v, and others %v", clients, hostile, took, plain)
		}
	}
}
