package secure_test

import (
	"strings"
	"testing"

	"xdsrelay/relay/secure"
)

// TestToken: the first line is shown, all are good, and nothing else is.
func TestToken(t *testing.T) {
	path, log := tempFile(t, "\n  first-0123456789 \r\n\nsecond-0123456789\n"), new(logs)
	token, err := secure.NewToken(path, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if got := token.Current(); got != "first-0123456789" {
		t.Errorf("shows %q", got)
	}
	for given, good := range map[string]bool{
		"first-0123456789":    true,
		"second-0123456789":   true,
		"first-012345678":     false,
		"\tfirst-0123456789":  false,
		"first-0123456789\n":  false,
		"":                    false,
		"third-0123456789012": false,
	} {
		if token.Matches(given) != good {
			t.Errorf("%q is good: %t, expected %t", given, !good, good)
		}
	}
	write(t, path, "third-0123456789012")
	if got := token.Current(); got != "third-0123456789012" {
		t.Errorf("shows %q after the file changed", got)
	}
	if token.Matches("first-0123456789") {
		t.Error("a token is good that is in the file no more")
	}
	write(t, path, "short")
	if got := token.Current(); got != "third-0123456789012" {
		t.Errorf("shows %q, expected what was good before", got)
	}
	if n := log.lines("level=ERROR"); n != 1 {
		t.Errorf("%d errors, expected one:\n%s", n, log)
	}
}

// TestTokenBad: what is no token is an error that names the file and says nothing
// of what is in it.
func TestTokenBad(t *testing.T) {
	for _, content := range []string{"", "\n \n", "secret", "secret-0123456789\nsecret", "secret 0123456789", "secret-ä-0123456789", "secret-\x00-0123456789"} {
		path := tempFile(t, content)
		_, err := secure.NewToken(path, new(logs).logger())
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, expected an error that names the file and not what is in it", content, err)
		}
	}
}
