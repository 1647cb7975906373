// Package hooks asks other systems about rollouts, over HTTP: Prometheus servers, and webhooks. It also
// sends a webhook the events of rollouts.
//
// Where it sends requests is in the configuration alone: it follows no redirect and uses no proxy. A
// question has names and ids, never the content of resources. Each request has a timeout, and at most
// [maxAnswer] bytes of an answer are read. Texts of errors and answers are cut, and
// shown without URLs and secrets.
//
// A [Sender] never blocks who sends: events wait in a queue of a fixed length, from which several goroutines
// send them. Those about a key are sent one after another, each until the webhook answers, with backoff.
//
//   - client.go: requests.
//   - prometheus.go, webhook.go: the systems that checks ask.
//   - sender.go: events.
package hooks
