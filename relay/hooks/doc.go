// Package hooks asks other systems about rollouts, over HTTP: Prometheus servers, and webhooks.
//
// Where it sends requests is in the configuration alone: it follows no redirect and uses no proxy. A
// question has names and ids, never the content of resources. Each request has a timeout, and at most
// [maxAnswer] bytes of an answer are read. Texts of errors and answers are cut, and
// shown without URLs and secrets.
//
//   - client.go: requests.
//   - prometheus.go, webhook.go: the systems that checks ask.
package hooks
