// Package migrate writes the configuration of xdsrelay that does what files of
// Envoy's xds-relay do: its bootstrap and its aggregation rules. It is pure: texts in,
// a text out.
//
// # Two kinds of keys
//
// xds-relay makes a key for each request, out of its type, resource names and Node.
// xdsrelay makes one for each stream, out of the Node alone: types and names are told
// apart below the key. Two clients belong together if xds-relay gives them equal keys
// for equal requests. So the rules are looked at once for each type that they name, and
// once for all others: what is left of them then speaks of the Node only. Clients share
// a key if they agree in what is left for every type. Names fall out, as the same
// request names the same.
//
// Every rule of a fragment that matches adds to the key, as in the code of xds-relay;
// its documentation says that the first one does.
//
// xds-relay refuses a request where a field is empty that a rule looks at, which other
// types of the same client may survive. There is no such thing here: a match is then
// one with an empty text, and the client is served. What a key takes from the metadata
// has to be text, however.
package migrate
