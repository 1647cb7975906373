// Package rollout decides how a change of the control plane reaches the clients of a key: to a few
// first, and to all of them only if those stay well. It works on values: it has no lock, no clock and
// no I/O. The caller guards each [Key] and the [Budget], reads the clock, freezes overlays, sends,
// and writes the record that all nodes agree on.
//
// A change is pending until the control plane is quiet. Then it is cut into a revision, which has a
// [Digest]. The revision goes to scouts, one client for each software version, then to a growing
// share of the clients, and then to all. After each step it bakes: the canaries that have it are
// compared with a control group that does not. If a verdict fails, the canaries return to the stable
// revision, the digest is refused, and the key is held until the control plane sends something else.
// After the final bake the revision is good, which makes it last known good.
//
// A key is in a [State]: the phase of its revision, what that needs next, and whether a brake is set.
// [Event]s move it along one table of transitions, which docs/internals/rollout.md shows cell by
// cell. The caller asks [Key.Next] what to do, does it, and reports the result as an event. An event
// returns [Effect]s, which the caller carries out. More clients get a revision only by [Key.Chosen]
// and [Key.Promoted], which the caller calls after an agreed write of the record; whatever narrows is
// possible at any time.
//
// With the mode observe a key has the same states and decisions. The caller records them, and carries
// out none of them: see [Key.IsEnforced].
//
//   - state.go: phases, needs, brakes, events, effects.
//   - transitions.go: the table.
//   - key.go: a key, its revision, and one method for each event of the rollout.
//   - orders.go: the orders of operators, and the brakes.
//   - next.go: decisions and the reasons to wait.
//   - policy.go, presets.go, validate.go, validate_checks.go: the policy of a key.
//   - policies.go, selector.go: the policies of a configuration, and what their expressions say about a
//     client.
//   - hash.go, population.go, roster.go, scouts.go: the canaries, and how nodes choose them together.
//   - analysis.go, exact.go: the verdict on two arms, and the statistics behind it.
//   - budget.go: how many clients of a tier may have revisions that no bake has proven.
//   - digest.go: the name of a revision.
//
// A transition that the table does not have panics in builds with the race detector and changes
// nothing in others.
package rollout
