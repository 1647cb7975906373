package conformance

import (
	"testing"

	"xdsrelay/relay/xdstest/conversation"
)

// script is a conversation that shows rules.
type script struct {
	rules        []string
	name, file   string
	combinations []string // "down-over-up", as they are run
}

// scripts lists the conversations of a folder.
func scripts(t *testing.T, dir string) (list []script) {
	t.Helper()
	all, err := conversation.Scripts(dir)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	for _, s := range all {
		list = append(list, script{rules: s.Rules, name: s.Name, file: s.File, combinations: s.Combinations})
	}
	return list
}
