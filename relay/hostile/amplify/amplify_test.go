package amplify

import (
	"context"
	"errors"
	"hash/fnv"
	"regexp"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/origin"
	"xdsrelay/relay/xdstest"
)

// TestTable holds the bounds of all rows: see the package. The ordinary run measures one
// pattern of each sixth field; the full run (make hostile) measures all of them.
func TestTable(t *testing.T) {
	which := regexp.MustCompile(*only)
	run := func(w *world, rows []row) {
		for _, r := range rows {
			if which.MatchString(r.String()) {
				w.hold(t, r)
			}
		}
	}
	began := time.Now()
	all := allWorlds(t)
	for _, part := range all {
		rows := part.rows(*full)
		if !*full && *only == "" {
			rows = oneOfEach(rows)
		}
		run(part.world, rows)
		t.Logf("%d rows, after %v", len(rows), time.Since(began).Round(time.Millisecond))
	}
}

// sampledFields is of how many fields one is measured in the ordinary run.
const sampledFields = 6

// oneOfEach returns one row of each sixth field, of those before and after authorization
// each, and of the first field of each surface. The name of the field selects the pattern, so
// that all patterns are among them.
func oneOfEach(rows []row) (some []row) {
	type field struct {
		surface, message, name string
		refused                bool
	}
	all := make(map[field][]row)
	var order []field
	for _, r := range rows {
		f := field{r.surface, r.message, r.field, r.refused}
		if all[f] == nil {
			order = append(order, f)
		}
		all[f] = append(all[f], r)
	}
	surfaces := make(map[string]bool)
	for _, f := range order {
		h := fnv.New32a()
		_, _ = h.Write([]byte(f.surface + f.message + f.name)) // a hash takes everything
		if sum := int(h.Sum32()); sum%sampledFields == 0 || !surfaces[f.surface] {
			some = append(some, all[f][sum/sampledFields%len(all[f])])
		}
		surfaces[f.surface] = true
	}
	return some
}

// TestPage holds that docs/threat-model.md shows all rows.
func TestPage(t *testing.T) {
	var rows []row
	for _, part := range allWorlds(t) {
		rows = append(rows, part.rows(true)...)
	}
	holdPage(t, rows)
}

// part is a node and its rows; all also those of the long run.
type part struct {
	*world

	rows func(all bool) []row
}

// allWorlds starts the nodes that all rows need.
func allWorlds(t *testing.T) []part {
	t.Helper()
	o, err := origin.New(origin.Config{Spec: content.Spec{Keys: 1, Clusters: 2, Listeners: 1}, Cache: origin.Linear, Loads: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := drive.New(o, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	clients := startNode(t, setup{Origin: d.Addr(), Delta: true})
	polls := startNode(t, setup{Origin: d.Addr(), Delta: true, Polls: true})
	cc := dial(t, clients.XDS)
	parts := []part{
		{&world{node: clients, locks: func(t *testing.T, do func()) { busy(t, cc, do) }}, func(all bool) []row {
			return append(append(clientRows(t, clients, all), frameRows(t, clients)...), operatorRows(t, clients, all)...)
		}},
		{&world{node: polls}, func(all bool) []row { return pollRows(t, polls, all) }},
	}
	for _, variant := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		c := startControlPlane(t)
		n := startNode(t, setup{Origin: c.address, Delta: variant.Delta})
		parts = append(parts, part{&world{node: n}, func(all bool) []row { return upstreamRows(t, n, c, variant, all) }})
	}
	owner := startControlPlane(t)
	follower := startNode(t, setup{Origin: d.Addr(), Delta: true, Tier: []string{otherNode + "=" + owner.address}, LastGood: t.TempDir()})
	parts = append(parts, part{&world{node: follower}, func(all bool) []row { return peerRows(t, follower, owner, all) }})
	v := startVault(t)
	files := startNode(t, setup{Files: true})
	return append(parts,
		part{&world{node: v.node}, func(all bool) []row { return v.redisRows(t, all) }},
		part{&world{node: files}, func(all bool) []row { return fileRows(t, files, all) }})
}

// busy lets clients of the same key and of another open streams, ask and leave, while do
// runs, and an operator look at them.
func busy(t *testing.T, cc *grpc.ClientConn, do func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, key := range []string{fleetKey, fleetKey, "other"} {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := oneClient(ctx, cc, key); err != nil && ctx.Err() == nil {
					t.Errorf("a client of the key %s: %v", key, err)
					return
				}
			}
		})
	}
	do()
	end()
	others.Wait()
}

// oneClient opens a stream and leaves once it has had a response.
func oneClient(ctx context.Context, cc *grpc.ClientConn, key string) error {
	ctx, end := context.WithTimeout(ctx, xdstest.Patience)
	defer end()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(cc).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(key), TypeUrl: content.ClusterURL}); err != nil {
		return errors.Join(err, s.CloseSend())
	}
	_, err = s.Recv()
	return err
}
