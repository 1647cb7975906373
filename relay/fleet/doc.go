// Package fleet says who runs which version: how each client of a tier stands with
// each type that it asks for, since when, and who has rejected what.
//
// A node tells of its own clients, in pages and in sums. The node that is asked puts
// the answers of all nodes together. Who did not answer is named with each answer,
// with the number of the clients of which nothing is known for that: what is told is
// never a part that looks like the whole.
//
// A client is who comes by one connection under one node id and key. It may have
// several streams: without aggregation there is one for each type. Who polls has no
// connection: that is who comes from one host under one node id and key.
package fleet
