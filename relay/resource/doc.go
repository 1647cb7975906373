// Package resource has the xDS resources in wire form and the wire format of the discovery
// protocol.
//
// The body of a resource stays the opaque bytes that the control plane sent: the relay decodes the
// envelope and the name only, so that hashes, unknown fields and extensions are preserved (D2, A7).
// There is one exception: make-before-break needs the name of the endpoint set of a Cluster (E3),
// which is read from its body.
//
// Everything here is pure: no goroutines, no I/O, no clocks. Returned values are immutable and may
// be shared between goroutines, except the results of decoding a request: these refer to the
// encoded request.
//
// # Files
//
//	resources    resource.go, digest.go, envelope.go, envelope_encode.go
//	types        type.go, type_v2.go, type_istio.go, label.go
//	names        name.go, urn.go, locator.go, about.go (errors and removals by name)
//	responses    response.go (decode), proportion.go (bounds), encode.go
//	requests     request.go, namelist.go, scan.go (bounds, and the Node, before decoding)
//	other nodes  peer.go
//	protobuf     field.go, readable.go
//
// The package jsontypes registers the message types that JSON, YAML and text formats need; v2types
// has the descriptors of version 2.
package resource
