// Package content says what the load tool serves: which keys there are, which
// resources each of them has, what is in them, and how they change. Servers
// build it, simulated clients check it, and neither has to ask the other.
//
// Keys are named key-00000, key-00001 and so on. A client belongs to the key
// that its node names as its cluster, and every resource's name begins with its
// key and a slash: key-00012/service-00034. Clusters take their endpoints over
// ADS, from the assignment of the same name; listener i takes its routes from
// route configuration i.
//
// All keys change at the same time and in the same way, from revision 0, which
// is the first content, by one revision a change. Each resource holds the stamp
// of the revision that changed it last, as text, so that a reader finds it
// without taking the resource apart:
//
//	xdsbench@REVISION@NANOSECONDS
//
// with 16 lower-case hexadecimal digits each: the revision, and the time, since
// 1970, at which the change was intended. That may be before it was made: where
// a server falls behind its schedule, what clients measure against this time
// has the delay in it. The stamp is followed by as many x as make the resource
// as large as it should be.
//
// The package does no I/O and starts no goroutines.
package content
