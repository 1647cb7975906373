// Package guarded checks under the race detector that a store without a lock of its own is used under
// the lock of its owner. The store calls a [Guard] in each method, and the owner says what that calls.
package guarded
