//go:build !race

package sim

// seeds is how many plans a short run has.
const seeds = 8

// every is which of the plans in testdata/found run: all.
const every = 1
