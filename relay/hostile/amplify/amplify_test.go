package amplify

import (
	"context"
	"hash/fnv"
	"regexp"
	"testing"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/origin"
	"xdsrelay/relay/xdstest"
)

// TestTable holds the bounds of all rows: see the package. The ordinary run measures one
// pattern of each sixth field; the full run (make hostile) measures all of them.
func TestTable(t *testing.T) {
	which := regexp.MustCompile(*only)
	results := make(figures)
	run := func(w *world, rows []row) {
		for _, r := range rows {
			if which.MatchString(r.String()) {
				w.hold(t, r, results)
			}
		}
	}
	began := time.Now()
	all := allWorlds(t)
	defer func() {
		if *full && *update {
			writeFigures(t, results)
		}
	}()
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
	parts := []part{
		{clients.world(t, func(cc *grpc.ClientConn) others {
			return others{served(cc, fleetKey), served(cc, fleetKey), served(cc, "other")}
		}), func(all bool) []row {
			return append(append(clientRows(t, clients, all), frameRows(t, clients)...), operatorRows(t, clients, all)...)
		}},
		{polls.world(t, func(*grpc.ClientConn) others { return others{polling(t, polls), polling(t, polls)} }), func(all bool) []row { return pollRows(t, polls, all) }},
	}
	for _, variant := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		c := startControlPlane(t)
		n := startNode(t, setup{Origin: c.address, Delta: variant.Delta})
		of := n.world(t, func(cc *grpc.ClientConn) others { return others{passing(cc, fleetKey), passing(cc, fleetKey)} })
		parts = append(parts, part{of, func(all bool) []row { return upstreamRows(t, n, c, variant, all) }})
	}
	owner := startControlPlane(t)
	follower := startNode(t, setup{Origin: d.Addr(), Delta: true, Tier: []string{otherNode + "=" + owner.address}, LastGood: t.TempDir()})
	own := keysOf(t, "node")()
	tier := follower.world(t, func(cc *grpc.ClientConn) others { return others{served(cc, own), passing(cc, own)} })
	parts = append(parts, part{tier, func(all bool) []row { return peerRows(t, follower, owner, all) }})
	strangers := func(cc *grpc.ClientConn) others { return others{passing(cc, "other"), passing(cc, "other")} }
	v, kept := startVault(t), startShelf(t)
	files := startNode(t, setup{Files: true})
	return append(parts,
		part{v.world(t, strangers), func(all bool) []row { return v.redisRows(t, all) }},
		part{kept.world(t, strangers), func(all bool) []row { return kept.rows(t, all) }},
		part{&world{node: files}, func(all bool) []row { return fileRows(t, files, all) }})
}

// others are clients that use a node besides what a row sends.
type others []func(context.Context) error

// world is a node with others that use it.
func (n *node) world(t *testing.T, of func(cc *grpc.ClientConn) others) *world {
	t.Helper()
	clients := of(dial(t, n.XDS))
	return &world{node: n, locks: func(t *testing.T, do func()) {
		t.Helper()
		n.busy(t, do, clients...)
	}}
}
