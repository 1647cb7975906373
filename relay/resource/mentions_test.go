package resource

import "testing"

// TestMentions: a message mentions a name that is not a part of a longer word.
func TestMentions(t *testing.T) {
	for message, want := range map[string]bool{
		"cluster(s) shop: bad":               true,
		"shop":                               true,
		"shop-backup: bad":                   false,
		"workshop: bad":                      false,
		"workshop and shop-backup and shop.": true,
		"":                                   false,
	} {
		if got := Mentions(message, "shop"); got != want {
			t.Errorf("%q: %t", message, got)
		}
	}
	if Mentions("a b c", "b") {
		t.Error("a short name may be any word")
	}
}
