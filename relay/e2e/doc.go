// Package e2e runs the built xdsrelay program between a real control plane
// (go-control-plane) and the xDS clients of three languages: grpc-go, gRPC's C
// core under Python, and grpc-js. What the clients do is a call to a real
// backend, so that the tests see what a service would see.
//
// The fourth client is contour's command line, which speaks to one service for
// each type, on SotW and delta, and can reject all that it gets.
//
// With TLS on both sides it is grpc-go and the C core, which speaks xDS by hand where
// Debian's version is too old for that; grpc-js cannot do TLS with xDS.
//
// Tiers of several programs share a real Redis, which fails over.
//
// A browser (Debian's Chromium, driven by Playwright) uses the live page of such a tier.
//
// The tests carry the build tag e2e, because they need programs that the Go
// toolchain does not bring: `make e2e` installs what is missing and runs them.
//
// Each of the three is a process of its own that keeps one contract: it takes the
// xDS bootstrap from GRPC_XDS_BOOTSTRAP_CONFIG, calls the health service
// through xds:///svc without end, and prints one line of JSON a call with "ok",
// the "backend" that answered, and the "error".
package e2e
