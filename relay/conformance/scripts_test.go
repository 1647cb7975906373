package conformance

import "testing"

// script is a conversation that shows rules.
type script struct {
	rules        []string
	name, file   string
	combinations []string // "down × up", as they are run
}

// scripts lists the conversations of a folder.
func scripts(*testing.T, string) []script { return nil }
