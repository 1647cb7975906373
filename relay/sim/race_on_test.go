//go:build race

package sim

// seeds is how many plans a short run has: the race detector makes each ten times as long.
const seeds = 1

// every is which of the plans in testdata/found run: every fourth.
const every = 4
