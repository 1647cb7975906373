// Package conversation runs scripted xDS conversations against any xDS server.
// A script says in short sentences what an origin has or says, what clients ask
// for, what they must get and what they must not. The same script runs in many
// combinations: clients that speak SotW or delta, on the aggregated stream or on
// a stream for each type, and a server that speaks SotW or delta with its
// origin.
//
// A server needs only an address for clients and a way to be told the address of
// its origin; [Options] has the function that starts one. Where a server has no
// origin above it, scripts may do without one.
//
// # A script
//
// A script is a txtar file named <RULE>_<short-name>.txtar. It begins with a
// head: what the rule is and what is shown, in plain words after '#', and headers.
//
//	# A change is sent once, and then there is silence.
//	rules: B31 B28
//	down: sotw-ads delta-ads
//	up: delta
//
//	-- conversation --
//	origin has cds a=1 b=1
//	alice subscribes cds
//	alice gets cds a=1 b=1
//	origin has cds a=2
//	alice gets cds a=2
//	alice hears nothing
//	-- config --
//	origin:
//	  absent_after: 500ms
//
// Headers, all optional:
//
//	rules:    the rules that the script holds, among them that of the file's name
//	down:     how clients speak: sotw-ads, delta-ads, sotw-type, delta-type (all
//	          four unless said), or mixed, where each client says it by itself
//	up:       how the server speaks with its origins: sotw, delta (both unless said)
//	origin:   scripted, or automatic (unless said)
//	origins:  several of them, "east scripted, west"; without it there is one,
//	          called origin
//	servers:  the names of the servers under test; without it there is one, called
//	          relay. Clients connect to it, or to the first by name
//
// The part "-- config --" is handed to the server when it starts; {NAME} in it
// stands for the address of the origin NAME.
//
// # Lines
//
// Each line is a sentence: an actor, a verb, and what goes with it. Origins and
// servers are known from the head; every other actor is a client, who appears
// with its first words. "alice and bob hear nothing" is a line for both. '#'
// begins a comment. Quotes ('…' or "…") make one word of what has spaces, '='
// or '#' in it, or is a keyword. A line may begin with conditions, all of which
// must hold: [delta] and [sotw] for how clients speak, [ads] and [type] for the
// kind of stream, [up delta] and [up sotw] for the other side; [!delta] is the
// opposite.
//
//	let NAME VALUE     $NAME stands for the value from here on
//	quiet [DURATION]   no client hears anything, and no origin is told anything
//	                   new, for that long (150ms unless said)
//
// Types are cds, eds, lds, rds, srds, vhds, leds, sds, rtds, ecds, thrift,
// ratelimit, or a message name like x.Y, or a type URL.
//
// Resources are written NAME=TAG: the tag is any word that tells contents apart,
// so a=1 and a=2 are two versions of a. An expected resource without a tag may
// have any content. What more there is to a resource goes into braces:
// a=1{ttl=30s version=v42}. A name that has '=' in it must be quoted.
//
//	version=V  ttl=D  alias=NAME  metadata=TEXT  unknown=TEXT  do-not-cache
//	resource-name=NAME    fields of the envelope; unknown is a field of Resource
//	                      that nobody knows
//	bodyless              a name without a content (a{bodyless ttl=1s})
//	wrapped  bare         on SotW in a Resource, or not in one
//	ttl-at-most=D         expected: a TTL of at most that
//
// and, where an origin says it, of the content:
//
//	inner=NAME            another name in the body than outside
//	to=NAME               the cluster of a route or virtual host, the routes of a listener
//	service=NAME          the name of a cluster's endpoints
//	static                a cluster without endpoints to be looked up
//	extra=TEXT            a field that the type does not have
//	size=N                … and one of so many bytes
//	any=TYPE              another type in the Any
//	garbage               no message at all
//
// An expected TTL, aliases, bodyless and, if named, wrapped or bare must be just
// so; version, metadata and the others are looked at where they are named.
//
// # Clients
//
// A client does what a well-behaved one does: it sends its node with the first
// request of a stream, quotes nonces and versions, and answers what it "gets"
// with an ACK right then. Every frame is checked: it has a nonce that is new on
// the stream, no resource twice, bodies of the frame's type, and nothing that
// the client did not ask for. A frame that no line has taken fails the script at
// its end.
//
//	alice is id=x cluster=y zone=z region=r agent=a feature=f meta.k=v param.cds.k=v
//	    fields of its node (feature and meta. add); before its first request
//	alice speaks delta-type            instead of what the combination says
//	alice connects to east             the server to talk to, one of servers:
//	alice subscribes eds a b           adds names; without names as the first
//	                                   request of a type it is the legacy wildcard
//	alice unsubscribes eds a
//	alice resumes eds a b version V    a first request that quotes a version (SotW)
//	alice resumes eds a b holding a=V  … or the versions that it holds (delta)
//	alice reconnects                   new streams, on which it asks again for all
//	                                   that it wants, with the versions it has
//	alice reconnects without versions
//	alice leaves                       ends its streams and forgets everything
//	alice half-closes                  sends no more
//	alice takes frames up to 65536     a frame of more bytes is a failure from here on
//	alice stops reading                until it reads again
//	alice reads again
//
// What comes is told as news, so that one line fits all variants:
//
//	alice gets eds a=2 removed b
//
// On delta the frame holds just that. On SotW, for a type that is sent as full
// state, it holds all that alice has, with a changed and b gone. For other SotW
// types it holds a=2, and it may repeat what alice has; nothing can be said
// about b, so a line that has nothing but removals expects silence.
//
//	alice gets cds nothing             an empty frame
//	alice gets cds exactly a=1         just that, also on SotW
//	alice gets cds errors z=NOT_FOUND  resource_errors
//	alice gets cds a=1 version V       also: version not V, nonce N,
//	                                   control-plane ID
//	alice gets cds a=1 and waits       no answer yet
//	alice gets cds a=1 and nacks "why"
//	alice next gets cds a=1            … and no frame of another type before it
//	alice ends up with eds a=2 removed z
//	                                   takes and acknowledges frames until it holds
//	                                   just this and, on delta, knows that z is gone
//	alice hears nothing                no frame, and no stream ends, for a while
//	alice hears nothing of eds for 1s
//	alice is closed with UNAVAILABLE "text"
//	                                   its streams end, with the text in the message
//
// Answers apart from "gets":
//
//	alice holds acks                   from now on it does not answer by itself
//	alice acks by itself               … and now it does again
//	alice acks eds subscribing c unsubscribing a
//	alice nacks eds "why" subscribing c
//
// Exact messages, where nothing is filled in but the node of the first:
//
//	alice sends eds names a b version V nonce N error "why"           (SotW)
//	alice sends eds subscribe a unsubscribe b initial a=V nonce N     (delta)
//	alice sends eds … without node     also: node id=x, typed URL for another
//	                                   type_url ('' for none), and
//	                                   locators a{env=prod} for resource_locators
//	alice calls /package.Service/Method delta
//	                                   a stream of any method, which need not exist
//
// What came can be used later, as $NAME where a version, nonce or similar goes:
//
//	alice remembers version of eds as v
//	alice remembers version of eds a as w        (of one resource, delta)
//	alice remembers nonce of eds as n
//
// # Origins
//
// An automatic origin serves what it has, in either variant:
//
//	origin has cds a=1 b=2             adds or replaces
//	origin has cds c=1 removed a, eds c=1
//	                                   several types change at one stroke
//	origin drops cds b
//	origin gives prod cds a=2          to nodes of the cluster prod, which get
//	                                   nothing else
//
// A scripted origin says what it is told to, on the newest stream that asks for
// the type:
//
//	origin says eds a=1 b=1
//	origin says cds nothing
//	origin says eds a=1 removed b version V nonce N          (removed: delta only)
//	    also: removed-names NAME…, errors NAME=CODE…, control-plane ID,
//	    typed TYPE for another type_url, to NODE for the stream of a node id or
//	    cluster; version '' is none
//	origin closes UNAVAILABLE "text"   ends the newest stream; also: to NODE
//
// Both can be asked what they were told:
//
//	origin sees eds a b                waits until its open streams together ask
//	                                   for just that; * is the wildcard in either form
//	origin sees eds nothing
//	origin is asked eds a b            the next request of the type that no line has
//	                                   mentioned and that is more than an ACK names
//	                                   these (delta: subscribes to them)
//	    also: names …, version V (SotW), subscribe …, unsubscribe …,
//	    initial a=V (delta), nonce N, with node, without node
//	origin is acked eds nonce N
//	origin is nacked eds "text"        also: version V, nonce N
//	origin hears nothing               no request that no line has mentioned, apart
//	                                   from mere ACKs; "sees" mentions all so far.
//	                                   Also: of TYPE, for DURATION
//	origin has streams 1               so many are open
//	origin sees node id=x feature!=y   the node of the newest stream
//
// A NACK that no line has mentioned fails the script at its end.
//
//	origin stops                       cuts its streams and refuses new ones
//	origin starts                      at the same address
//
// # Servers
//
// What a server can be told is up to [Server.Do]: "relay drains".
package conversation
