package rollout

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// client is a client of a fleet that tests make.
type client struct {
	group string
	hash  Hash
}

// fleet makes clients of which each is in one of some groups.
func fleet(n, groups int, salt string) (all []client) {
	for i := range n {
		all = append(all, client{fmt.Sprint("zone-", i*i%max(groups, 1)), HashOf(salt, "shop", fmt.Sprint("envoy-", i), "")})
	}
	return all
}

// choose makes nodes count clients and return members, in an order by seed.
func choose(clients []client, nodes, k int, seed uint64, had, quarantine Roster) (canaries, control Roster) {
	random := rand.New(rand.NewPCG(seed, 1))
	at := make([][]client, nodes)
	for _, i := range random.Perm(len(clients)) {
		n := random.IntN(nodes)
		at[n] = append(at[n], clients[i])
	}
	var tier Population
	for _, on := range at {
		var p Population
		for _, c := range on {
			p.Add(c.group, c.hash)
		}
		tier.Merge(&p)
	}
	plan := tier.Plan(k, len(had.Hashes))
	var members []Member
	for _, on := range at {
		for _, c := range on {
			if m, wanted := plan.Wants(c.group, c.hash); wanted {
				members = append(members, m)
			}
		}
	}
	return plan.Choose(members, &had, &quarantine)
}

// TestRosters holds over random fleets that a step has exactly its number of clients, that it
// contains the one before, that the control group is as large as can be and apart, that each group
// has its share, and that it does not matter on which nodes clients are.
func TestRosters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, groups := rapid.IntRange(1, 2000).Draw(t, "clients"), rapid.IntRange(1, 90).Draw(t, "groups")
		clients := fleet(n, groups, rapid.StringN(1, 4, -1).Draw(t, "salt"))
		sizes := make(map[string]int)
		for _, c := range clients {
			sizes[c.group]++
		}
		var had Roster
		for _, share := range []Share{0.01, 0.1, 0.5} {
			k := share.Of(n)
			canaries, control := choose(clients, rapid.IntRange(1, 5).Draw(t, "nodes"), k, rapid.Uint64().Draw(t, "order"), had, Roster{})
			if again, _ := choose(clients, 1, k, 1, had, Roster{}); !slices.Equal(again.Hashes, canaries.Hashes) {
				t.Fatalf("%v of %d clients depends on the nodes", share, n)
			}
			if len(canaries.Hashes) != k || len(control.Hashes) != min(k, n-k) {
				t.Fatalf("%v of %d clients are %d canaries and %d others, expected %d", share, n, len(canaries.Hashes), len(control.Hashes), k)
			}
			if !canaries.Contains(&had) {
				t.Fatal("a canary of the step before is missing")
			}
			in := make(map[string]int)
			for _, c := range clients {
				if canaries.Has(c.hash) {
					in[c.group]++
					if control.Has(c.hash) {
						t.Fatal("a canary is in the control group")
					}
				}
			}
			for group, size := range sizes {
				if len(sizes) > MaxGroups {
					break // some are counted as one
				}
				want := float64(k) * float64(size) / float64(n)
				if got := float64(in[group]); got > want+2 || got < want-2-float64(len(sizes))*want/float64(max(k, 1)) || k >= len(sizes) && got == 0 {
					t.Fatalf("%s has %v canaries of %d clients, expected about %v", group, got, size, want)
				}
			}
			had = canaries
		}
	})
}

// TestChangingFleet holds that a canary that has left counts, that a canary that is lost is replaced
// by none, and that a step that has lost all its canaries is filled again.
func TestChangingFleet(t *testing.T) {
	all := fleet(1000, 3, "a")
	had, _ := choose(all, 2, 10, 1, Roster{}, Roster{})
	stay := slices.DeleteFunc(slices.Clone(all), func(c client) bool { return had.Has(c.hash) })
	next, _ := choose(stay, 2, 99, 1, had, Roster{})
	if len(next.Hashes) != 99 || !next.Contains(&had) {
		t.Errorf("%d canaries after 10 have left, expected 99 with those", len(next.Hashes))
	}
	lost := RosterOf(had.Hashes[:3]...)
	next, _ = choose(all, 2, 99, 1, had, lost)
	if len(next.Hashes) != 99 || !next.Contains(&had) {
		t.Errorf("%d canaries after 3 were lost, expected 99 with those", len(next.Hashes))
	}
	next, control := choose(all, 2, 99, 1, Roster{}, lost) // of another revision
	if len(next.Hashes) != 99 || slices.ContainsFunc(lost.Hashes, next.Has) || slices.ContainsFunc(lost.Hashes, control.Has) {
		t.Errorf("%d canaries after 3 were lost with another revision, expected 99 others", len(next.Hashes))
	}
	if refilled, _ := choose(stay, 2, 10, 1, Roster{}, Roster{}); len(refilled.Hashes) != 10 || slices.ContainsFunc(refilled.Hashes, had.Has) {
		t.Errorf("%d canaries after all have left", len(refilled.Hashes))
	}
}

// TestRange holds that for many canaries a range is chosen, which has almost as many, never more, and
// contains the step before.
func TestRange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	clients := make([]client, 300_000)
	for i := range clients {
		clients[i] = client{fmt.Sprint(i % 3), Hash(random.Uint64())}
	}
	had, _ := choose(clients, 2, 30_000, 1, Roster{}, Roster{})
	count := func(r *Roster) (n int) {
		for _, c := range clients {
			if r.Has(c.hash) {
				n++
			}
		}
		return n
	}
	for _, k := range []int{MaxExact + 1, 150_000} {
		canaries, control := choose(clients, 2, k, 1, had, Roster{})
		if got := count(&canaries); got > k-k/reserve || got < k-k/reserve-len(had.Hashes) {
			t.Errorf("%d canaries, expected a few less than %d", got, k)
		}
		if !canaries.Contains(&had) {
			t.Error("a canary of the step before is missing")
		}
		if got := count(&control); got == 0 {
			t.Error("there is no control group")
		}
		had = canaries
	}
}

// TestHash holds that a hash depends on each of its parts, and on where one ends.
func TestHash(t *testing.T) {
	seen := make(map[Hash]bool)
	for _, parts := range [][4]string{{"a", "b", "c", "d"}, {"ab", "", "c", "d"}, {"a", "bc", "", "d"}, {"a", "b", "cd", ""}, {"a", "b", "c", "e"}, {"x", "b", "c", "d"}} {
		seen[HashOf(parts[0], parts[1], parts[2], parts[3])] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d hashes, expected 6", len(seen))
	}
	if h := HashOf("salt", "shop/web", "envoy-1", ""); h != HashOf("salt", "shop/web", "envoy-1", "") || h.bucket() >= Buckets {
		t.Errorf("hash %x", h)
	}
}

// TestScouts holds that one client of each version is chosen, the most frequent versions first, and then
// others of versions whose scouts do not see all types with changes that clients of the version see.
func TestScouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Scout
		clients, sees := map[string]int{}, map[string]uint64{}
		for i := range rapid.IntRange(0, 60).Draw(t, "clients") {
			one := Scout{Hash(i) * 1e9, rapid.SampledFrom([]string{"envoy/1.33", "envoy/1.36", "grpc/1", "grpc/2"}).Draw(t, "version"), uint64(rapid.IntRange(0, 7).Draw(t, "sees"))}
			all = append(all, one)
			clients[one.Version]++
			sees[one.Version] |= one.Sees
		}
		most := rapid.IntRange(1, 20).Draw(t, "most")
		scouts := ScoutsAmong(all, most)
		seen := map[string]uint64{}
		for i, s := range scouts {
			if !slices.Contains(all, s) {
				t.Fatalf("%v is no client", s)
			}
			if i < len(clients) && i > 0 && clients[s.Version] > clients[scouts[i-1].Version] {
				t.Fatalf("%v are not in order", scouts)
			}
			if i >= len(clients) && s.Sees&^seen[s.Version] == 0 {
				t.Fatalf("%v sees nothing new in %v", s, scouts)
			}
			seen[s.Version] |= s.Sees
		}
		if len(seen) != min(most, len(clients)) {
			t.Fatalf("%d versions, expected %d", len(seen), min(most, len(clients)))
		}
		if len(scouts) > most {
			t.Fatalf("%d scouts, expected at most %d", len(scouts), most)
		}
		if len(scouts) < most && !maps.Equal(seen, sees) {
			t.Fatalf("scouts see %v, expected %v", seen, sees)
		}
	})
}

// TestScoutSeesMost holds that a client that sees all types with changes is chosen before one that comes
// first and sees one of them, and that of equal ones the first is chosen.
func TestScoutSeesMost(t *testing.T) {
	all := []Scout{{1, "envoy", 1}, {2, "envoy", 3}, {3, "envoy", 3}, {4, "grpc", 0}, {5, "grpc", 0}}
	if scouts := ScoutsAmong(all, 5); !slices.Equal(scouts, []Scout{all[1], all[3]}) {
		t.Errorf("%v", scouts)
	}
}
