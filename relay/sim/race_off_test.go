//go:build !race

package sim

// seeds is how many plans a short run has.
const seeds = 8
