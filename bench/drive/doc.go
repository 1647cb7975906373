// Package drive is what an origin and a floor have in common: orders, at once
// or by a schedule, to change what they serve, to count, and to be away.
//
// A schedule is open-loop: when its changes are due is fixed when it starts,
// and a change that takes longer than the interval delays the ones after it but
// not the times that they are stamped with.
package drive
