// Package fielddiff compares two versions of a resource field by field. What it returns is redacted
// and bounded: a secret that differs is named by its path, without its value, and long values and
// long lists are cut.
//
// Paths are those of the JSON that `xdsrelay dump` prints, so that they work in jq, too:
// clusters of routes are at virtualHosts[0].routes[2].route.cluster, the label of an endpoint at
// endpoints[0].metadata.filterMetadata["envoy.lb"]["canary"]. The message inside an Any has the
// path of the Any.
//
// Elements of lists are matched by content first, then by name, then by order, so that an element
// inserted at the front is one difference. The index in a path is that of the new version; where
// an element was removed, that of the old version.
package fielddiff
