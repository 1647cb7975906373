// Package aggregation maps a client to the group it shares an upstream stream
// with: by an ordered list of rules it turns the client's Node and its
// authenticated peer into a [Key] and into the Node that the relay shows to the
// control plane on behalf of the whole group. It is pure: no goroutines, no I/O,
// and the same input gives the same output on every relay node.
//
// # Rules
//
// A rule is two CEL expressions over the variables node (an
// envoy.config.core.v3.Node), peer (a [Peer]) and listener (the name of the listener
// that the client came by): match decides whether the rule applies, key gives the
// group's name. The first rule that matches wins. Both
// are type-checked by [Compile], so a misspelt field fails at load and not at
// the first client. Metadata alone is dynamic: a rule that reads a metadata key
// which a client lacks refuses that client, and names the rule; it never falls
// through to the next one, for a typo in a rule would then move clients into
// another group in silence. has(node.metadata.env) asks first.
//
// Besides CEL's standard library, rules have the string functions of cel-go
// (split, substring, lowerAscii, replace and so on). Left out is what would let a
// client's Node make an evaluation grow without bound: join and format, patterns
// and replacement texts that are not constants. regex.replace(text, pattern, with)
// puts with, in which \1 is the first group, in the place of each match.
//
// # Isolation by construction
//
// The control plane sees one Node per group (K4). Were it to hold anything that
// differs between two members, the control plane could answer one member with
// what was meant for the other (K6). So Compile works out from the checked syntax
// tree which Node fields flow into the key, and only those (plus the rule's pass
// list) are copied to the upstream Node. A field that only decides, in match or
// in the condition of a ?:, does not flow and is not passed. Both branches of a
// ?: do: to have two groups of which each knows one field only, write two rules.
//
// A key that is made of a part of a field, like the name before the number in
// web-17, would thus tell web-17 and web-18 apart after all: the whole field flows
// into it. Such a rule says node_field. The control plane then sees the key's text in
// the place of the fields.
//
// This holds if equal keys always come with equal Nodes, and the string that a
// key expression gives does not ensure that:
//
//   - concatenation forgets its seams: cluster "a/b" + "/" + zone "c" and
//     cluster "a" + "/" + zone "b/c" are one string from two Nodes;
//   - functions forget: lowerAscii() of "A" and "a";
//   - two rules may give the same string out of different fields, and so may one
//     rule before and after its text was changed, on two relay nodes that run
//     different configurations for a while;
//   - a rule's pass list adds fields that its key does not mention;
//   - features that change payloads (K5) come with the client, not with the rule.
//
// Therefore a Key is
//
//	escaped string [ "~" mark ] { "+" feature }
//
// where the mark says what the string is made of and makes it unambiguous:
//
//	web                   the string is node.cluster, the default; no mark
//	web~id=key            the string itself is shown, as the id (node_field)
//	prod~metadata.env     the string is exactly this one field
//	all~none              no Node field is passed (a constant, a peer identity)
//	a/b/c~41d0…           anything else: 96 bits of SHA-256 over names and values
//	                      of the passed fields
//	web+no-overprovisioning
//
// In the string itself, "%", "~" and "+" are written %25, %7E and %2B, so no
// client can spell a mark or a feature. The digest has 96 bits and not fewer
// because clients choose what goes into it: with 32 bits a client would find, in
// seconds, a value of a free field that puts it into the group of another.
//
// The id of an upstream Node is "xdsrelay/" and the Key, with "~~" and the identity for
// clients that have secrets of their own, unless a client's id is shown. No Key contains
// "~~", so no client can spell the id of an identity.
//
// Neither the relay's version nor the id that it derives from the key is part of
// the Key, so a rolling upgrade moves nobody.
package aggregation
