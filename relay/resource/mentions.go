package resource

import "strings"

// shortestMentioned is the length of the shortest name that counts: a shorter one may be part of any word.
const shortestMentioned = 4

// Mentions reports whether a message, such as the reason of a rejection, contains the name of a resource that
// is not a part of a longer word.
func Mentions(message, name string) bool {
	if len(name) < shortestMentioned {
		return false
	}
	inWord := func(c byte) bool {
		return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for rest := 0; ; rest++ {
		i := strings.Index(message[rest:], name)
		if i < 0 {
			return false
		}
		rest += i
		if end := rest + len(name); (rest == 0 || !inWord(message[rest-1])) && (end == len(message) || !inWord(message[end])) {
			return true
		}
	}
}
