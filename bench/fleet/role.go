package fleet

import "math/rand/v2"

// role is how a client behaves.
type role uint8

const (
	normal role = iota
	slow
	stuck
	rejecting
	restless
)

func (r role) String() string {
	return [...]string{"normal", "slow", "stuck", "rejecting", "restless"}[r]
}

// roles deals the roles out to n connections, spread evenly, the same way each
// time.
func roles(n int, shares map[role]float64) []role {
	all := make([]role, n)
	var special []role
	for r := slow; r <= restless; r++ {
		for range int(float64(n)*shares[r]/100 + 0.5) {
			if len(special) < n {
				special = append(special, r)
			}
		}
	}
	order := rand.New(rand.NewPCG(1, 1))
	order.Shuffle(len(special), func(i, j int) { special[i], special[j] = special[j], special[i] })
	for i, r := range special {
		all[i*n/len(special)] = r
	}
	return all
}
