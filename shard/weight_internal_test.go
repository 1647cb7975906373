package shard

import "testing"

// TestWeight: the hash is the same in every version of the program: otherwise each key would have
// two owners in a tier of two versions. Different pairs of name and key with the same concatenation
// have different hashes.
func TestWeight(t *testing.T) {
	for _, tc := range []struct {
		member, key string
		want        uint64
	}{
		{"a", "k", 0x171083bfa20354b},
		{"ab", "c", 0xe9d863bcc8b3c9a8},
		{"a", "bc", 0xa55595b0095f3913},
		{"node-1", "", 0x165f6e15f2151dd7},
		{"relay-0.relay", "team=web|zone=a", 0x579d9fb7f0af43cb},
	} {
		if got := weight(tc.member, tc.key); got != tc.want {
			t.Errorf("%q for %q: %#x, expected %#x", tc.member, tc.key, got, tc.want)
		}
	}
}
