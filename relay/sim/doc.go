// Package sim lets rare hours happen to a tier that is simulated: whole nodes, as the
// program assembles them, in one process and in virtual time ([testing/synctest]). What
// they have no say in is replaced: the network and its machines ([xdstest.Memory]), the
// server behind the product's own Redis client (shard/redistest/standin), the disks, the
// control plane and the clients. An hour takes seconds of CPU time.
//
// What happens is a [Plan], which is data. [Draw] makes one of a seed, with all kinds of
// events at any times, so that they meet; [Run] carries it out; [Shrink] makes one that
// fails as short as it can. Each run has a bubble of its own.
//
// Whether all is well is judged by the validators of relay/robust/check, of what was
// recorded, and by those of this package, which also know how the world was: who could
// reach whom, and which node had what.
//
// The goroutines of a run take turns as they like, and the product draws its pauses by
// chance: a plan that fails does so nearly always, not always.
package sim
