// Package verify checks what is in deploy: that Kubernetes, Prometheus, Docker Compose
// and systemd take it, that its parts fit one another, and that the program takes the
// configurations. It is a module of its own, so that the product depends on none of
// the tools that do so.
package verify
