// Package scenario measures what servers cost: it starts an origin, a target and
// a fleet of simulated clients as processes of their own, takes them through the
// steps of a scenario, and reads what the target used from /proc.
//
// A [Scenario] is data: setups, and a few steps that are the same for each. A
// [Target] is what stands between the origin and the fleet: the relay, nothing,
// a floor that knows no protocol, or any command. [Compare] takes all targets
// through a scenario in turn, round by round, since a figure counts only as a
// ratio to a reference that was measured on the same machine at about the same
// time. Servers and clients share the machine's cores, so that CPU time is what
// counts, rather than what a clock on the wall says.
//
// Everything is on loopback, and every wait has an end.
package scenario
