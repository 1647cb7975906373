//go:build shadow

package cache

// shadowing compares the confidence of each stream with the fields that it will replace.
const shadowing = true
