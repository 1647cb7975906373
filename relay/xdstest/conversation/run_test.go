package conversation

import (
	"strings"
	"testing"
)

// head makes a script of a conversation. The conversation begins in line 5.
func head(headers, lines string) string {
	return "# A try.\n" + headers + "\n\n-- conversation --\n" + lines
}

// TestHolds: what is so passes, for all verbs, in all combinations.
func TestHolds(t *testing.T) {
	for _, test := range []struct{ name, headers, lines string }{
		{"news", "up: delta", `
origin has cds a=1 b=1, eds a=1
alice subscribes cds
alice gets cds a=1 b=1
origin has cds a=2
alice gets cds a=2
origin drops cds b
alice gets cds removed b
alice subscribes eds a
alice gets eds a=1
origin has eds b=1
alice subscribes eds b
alice gets eds b=1
origin drops eds b
alice gets eds removed b
alice hears nothing
origin drops cds a
alice gets cds removed a
quiet
`},
		{"an empty frame", "up: delta", `
alice subscribes cds
alice gets cds nothing
`},
		{"answers", "up: delta", `
origin has cds a=1
alice subscribes cds
alice gets cds a=1 and waits
origin has cds a=2 b=1
alice hears nothing
alice acks cds
alice gets cds a=2 b=1 and nacks "no"
alice hears nothing
origin is nacked cds no
origin has cds a=3
alice holds acks
alice gets cds a=3 b=1
origin drops cds b
alice hears nothing for 20ms
alice nacks cds "no" unsubscribing x
alice acks by itself
alice gets cds a=3 removed b
origin is nacked cds
`},
		{"several clients", "up: delta\ndown: mixed", `
origin has eds a=1 b=1
alice speaks sotw-ads
bob speaks delta-type
bob is cluster=other feature=x meta.k=v
origin gives other eds a=2
alice subscribes eds a
bob subscribes eds a
alice gets eds a=1
bob gets eds a=2
origin has streams 2
origin sees eds a
alice leaves
origin has streams 1
origin sees node id=bob cluster=other feature=x meta.k=v id!=alice
alice and bob hear nothing of eds for 20ms
`},
		{"versions", "up: delta\ndown: delta-ads sotw-type", `
let LONG xdstp://auth/x?a=1&b=2
origin has eds $LONG=1
alice subscribes eds $LONG
alice gets eds $LONG=1
alice remembers version of eds as v
alice remembers nonce of eds as n
[delta] alice remembers version of eds $LONG as w
origin has eds $LONG=2
alice gets eds $LONG=2 version not $v
alice reconnects
[sotw] alice gets eds $LONG=2
[delta] alice hears nothing
[delta] bob resumes eds $LONG holding $LONG=$w
[delta] bob gets eds $LONG=2
[sotw] bob resumes eds $LONG version $v
[sotw] bob gets eds $LONG=2
bob reconnects without versions
bob gets eds $LONG=2
`},
		{"the end of streams", "up: delta", `
alice sends cds typed ''
[ads] alice is closed with INVALID_ARGUMENT
[type] alice gets cds nothing
origin stops
[type] alice is closed with UNAVAILABLE
origin starts
bob subscribes cds
bob gets cds nothing
bob half-closes
bob is closed with OK
`},
		{"slow readers", "up: delta\ndown: sotw-ads", `
origin has cds a=1
alice subscribes cds
alice stops reading
alice reads again
alice next gets cds a=1
alice ends up with cds a=1
`},
		{"a scripted origin", "origin: scripted\nup: delta\ndown: delta-ads", `
alice subscribes eds a b
origin is asked eds a b nonce '' with node
origin says eds a=1{version=v42 ttl=30s metadata=m unknown=u do-not-cache resource-name=r alias=b} removed c removed-names d errors b=NOT_FOUND version w1 nonce x control-plane me
alice gets eds a=1{version=v42 ttl=30s metadata=m unknown=u do-not-cache resource-name=r alias=b} removed c errors b=NOT_FOUND version w1 nonce x control-plane me
origin is acked eds nonce x
alice unsubscribes eds b
origin is asked eds subscribe unsubscribe b
origin sees eds a
origin says eds a{bodyless ttl=10s}
alice gets eds a{bodyless ttl-at-most=10s}
origin hears nothing
origin closes UNAVAILABLE "bye now"
alice is closed with UNAVAILABLE bye
`},
		{"a scripted SotW origin", "origins: east scripted, west\nup: delta\ndown: sotw-ads", `
alice sends eds names a version v0 nonce x node id=me
east is asked eds names a version v0 nonce x with node
east says eds a=1{ttl=1s wrapped} version v1
alice gets eds a=1{ttl=1s wrapped} and nacks bad
east is nacked eds bad version ''
alice sends eds names
east is asked eds names without node
east sees eds nothing
west hears nothing
`},
		{"exact messages", "up: delta\ndown: delta-ads delta-type", `
origin has eds a=1, cds a=1
alice sends cds subscribe * unsubscribe *
alice hears nothing
alice sends eds subscribe a initial a=old without node
alice gets eds a=1
bob takes frames up to 1000
bob sends eds subscribe a locators a{env=prod} b
bob gets eds a=1
`},
		{"an unknown method", "up: delta\ndown: delta-ads", `
alice calls /envoy.service.nothing.v3.Nothing/Streams delta
alice is closed with UNIMPLEMENTED
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if failure := play(t, head(test.headers, test.lines)); failure != "" {
				t.Error(failure)
			}
		})
	}
}

// TestFails: what is not so fails, at its line, with the conversation.
func TestFails(t *testing.T) {
	for _, test := range []struct{ name, headers, lines, want string }{
		{"wrong content", "up: delta", "origin has cds a=1 b=2\nalice subscribes cds\norigin has cds a=3\nalice gets cds a=3 b=2\nalice hears nothing\norigin has cds a=1\nalice gets cds a=3",
			`a is "1", want "3"`},
		{"wrong removal", "up: delta\ndown: delta-ads", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a=1 removed z",
			`removed are [], want ["z"]`},
		{"something missing", "up: delta", "origin has eds a=1\nalice subscribes eds a b\nalice gets eds b", "b is missing"},
		{"something more", "up: delta", "origin has eds a=1 b=1\nalice subscribes eds a b\nalice gets eds a", "b was not expected"},
		{"full state without a part", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes cds\norigin says cds a=1 b=1\nalice gets cds a=1 b=1\norigin says cds a=2\nalice gets cds a=2",
			"b, which the client has, is missing from the full state"},
		{"a change that nobody told", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes cds\norigin says cds a=1 b=1\nalice gets cds a=1 b=1\norigin says cds a=2 b=2\nalice gets cds a=2",
			`b is "2", but was "1"`},
		{"unexpected content", "up: delta", "origin has cds a=1\nalice subscribes cds\nalice hears nothing", `B1_try.txtar:7 (sotw-ads-over-delta): alice hears nothing` + "\n" + `alice got cds a=1 version "w1", and should not have heard anything`},
		{"silence", "up: delta", "alice subscribes eds a\nalice gets eds removed b\nalice gets eds a", "alice got nothing within 10s"},
		{"the end instead", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a=1\norigin stops\nalice hears nothing", "alice should not have heard anything, but the stream ended with Unavailable"},
		{"left over", "up: delta", "origin has eds a=1, cds a=1\nalice subscribes eds a\nalice subscribes cds\nalice gets cds a=1\nalice hears nothing of cds", "at the end: alice got eds a=1"},
		{"left over rejection", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a=1 and nacks bad\nalice hears nothing", "at the end: origin got a NACK that the script does not mention"},
		{"another type first", "up: delta\ndown: sotw-ads", "origin has eds a=1, cds a=1\nalice subscribes eds a\nalice gets eds a=1\nalice subscribes cds\nalice next gets eds a=1", "alice got cds a=1"},
		{"wrong version", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a version w9", `the version is "w1", want: version "w9"`},
		{"the same version", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a version not w1", `want: version not "w1"`},
		{"unknown memory", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a version $v", "nothing is remembered as v"},
		{"not there in the end", "up: delta", "origin has eds a=1\nalice subscribes eds a b\nalice ends up with eds a=1 b=1", "alice holds [a=1], and then: nothing came"},
		{"another status", "up: delta\ndown: sotw-ads", "alice sends cds typed ''\nalice is closed with OK", "ended with INVALID_ARGUMENT"},
		{"still open", "up: delta", "alice subscribes cds\nalice is closed with OK", "is still open after 10s"},
		{"the origin sees else", "up: delta", "alice subscribes eds a\norigin sees eds b", "origin is asked for [a] of eds, want [b]"},
		{"the origin hears more", "up: delta", "alice subscribes eds a\norigin sees eds a\nalice subscribes eds c\norigin hears nothing", "origin heard ClusterLoadAssignment"},
		{"the origin hears nothing", "up: delta", "alice subscribes eds a\norigin is asked cds", "origin waited 10s for a request of cds, in vain"},
		{"asked otherwise", "up: delta\ndown: delta-ads", "alice subscribes eds a\norigin is asked eds b without node nonce x", `the names are ["a"], want ["b"]; the nonce is "", want "x"; it has a node: true, want false`},
		{"nothing acked", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a=1 and waits\norigin is acked eds", "for an ACK of eds, in vain"},
		{"another rejection", "up: delta", "origin has eds a=1\nalice subscribes eds a\nalice gets eds a=1 and nacks bad\norigin is nacked eds good", `whose error does not say "good"`},
		{"not that many streams", "up: delta", "alice subscribes eds a\norigin has streams 2", "origin has 1 open streams, want 2"},
		{"another node", "up: delta", "alice subscribes eds a\norigin sees node id=bob", "the node does not fulfil id=bob"},
		{"an answer to nothing", "up: delta", "alice subscribes eds a\nalice acks eds", "alice has got nothing of eds that it has not answered"},
		{"says about what it never asked", "up: delta", "alice subscribes eds a\nalice gets cds nothing", "alice has not said anything about cds"},
		{"no such service", "up: delta\ndown: sotw-type", "alice subscribes vhds a", "vhds has no service that speaks sotw-type"},
		{"fields of the other variant", "up: delta\ndown: delta-ads", "alice sends eds names a", "put [sotw] before the line"},
		{"removal over SotW", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds removed a", "put [up delta] before the line"},
		{"nonce twice", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1 nonce n\nalice gets eds a=1\norigin says eds a=2 nonce n\nalice gets eds a=2", "was used before on the stream (B5)"},
		{"resource twice", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1 a=2\nalice gets eds a=1", "a is there twice (B29)"},
		{"another type inside", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1{any=cds}\nalice gets eds a=1", "Cluster (B30)"},
		{"not asked for", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds b=1\nalice gets eds b=1", "b was not asked for (B31)"},
		{"no SotW version", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1 version ''\nalice gets eds a=1", "a SotW frame without a version"},
		{"no resource version", "up: delta\ndown: delta-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1 version ''\nalice gets eds a=1", "a has no version (D14)"},
		{"unexpected TTL", "up: delta\ndown: delta-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1{ttl=1s}\nalice gets eds a=1", "a has TTL 1s, want 0s"},
		{"TTL too long", "up: delta\ndown: delta-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1{ttl=2s}\nalice gets eds a=1{ttl-at-most=1s}", "want one of at most 1s"},
		{"wrapped", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1{wrapped}\nalice gets eds a=1{bare}", "is wrapped, want it bare"},
		{"not wrapped", "up: delta\ndown: sotw-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a=1\nalice gets eds a=1{wrapped}", "is bare, want it wrapped"},
		{"no body", "up: delta\ndown: delta-ads\norigin: scripted", "alice subscribes eds a\norigin says eds a{bodyless}\nalice gets eds a", "has a body: false, want true"},
		{"other errors", "up: delta\ndown: delta-ads\norigin: scripted", "alice subscribes eds a\norigin says eds errors a=NOT_FOUND\nalice gets eds errors a=INTERNAL", `errors are ["a=NOT_FOUND"], want ["a=INTERNAL"]`},
		{"too large", "up: delta", "origin has eds a=1{size=1000}\nalice takes frames up to 1000\nalice subscribes eds a\nalice gets eds a=1", "bytes, which is more than 1000"},
		{"told the server", "up: delta", "relay drains", "relay can be told nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			failure := play(t, head(test.headers, test.lines+"\n"))
			if !strings.Contains(failure, test.want) || !strings.Contains(failure, "conversation of B1_try.txtar") {
				t.Errorf("failed with %q, want %q", failure, test.want)
			}
		})
	}
}
