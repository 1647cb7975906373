// Package rest is xDS for clients that poll: POST with proto3 JSON, one path per
// type (H1). A poll joins its group and subscribes like a stream does, for as
// long as it lasts, and no other is answered by anything that is kept of it (H5): what
// it asked for stays subscribed upstream for the linger time, which has to be longer
// than the clients' pauses. Who has polled lately, and with which versions, is
// remembered only to be shown, within bounds of time and bytes.
//
// A poll that quotes the version of what there is waits for news, for less than
// the time after which clients give up, and ends with 304. The version is derived
// from the content that the poll's names select, never the origin's own: who
// polls may come back after any number of changes, so an equal version has to
// prove equal content (H4). An answer is encoded once for all clients of a key
// that see the same, and the recent ones are kept within a bound of bytes.
//
// JSON spells out what is inside of an Any, so it takes the descriptors of every
// message. What this program has no descriptor for, be it an extension's type or
// a field that is newer than the program, fails the whole answer with 500, which
// names type and resource. Nothing less is safe: without the resource, a full
// state would read as its deletion; without the extension or field, the client
// would run what nobody has configured, perhaps less protected than was meant.
// Failed like this, it keeps what it has. Clients that ask for other names get
// their answers, and gRPC clients are not concerned, since nothing is opened for
// them.
package rest
