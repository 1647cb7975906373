// Package redact takes secrets out of what is shown: the one place that decides
// what dumps, logs, traces, error texts, the client status service and the admin
// pages may say of what clients and origins have sent.
//
// Resources are read by their descriptors. Hidden are fields that the API marks as
// sensitive, content that is written inline, whole secrets, what a name gives away
// (password, token, private key, …) in fields, maps and structs, headers that
// authorise, and everything that cannot be read here: unknown fields, and messages
// of unknown types, of which the type and the size stay. Extensions are configured by
// texts and structs whose names only they know: of these no text is shown. Texts are
// searched for PEM blocks, tokens, credentials of URLs, and values with such names.
//
// All of this takes time in proportion to the text, whoever wrote it, and a text is cut
// to what is shown of it before it is searched. Callers redact before they lock what
// others wait for.
//
// What is hidden leaves [Mark] behind where the type can hold it, so a redacted
// message is of the same type and goes wherever that goes. In doubt something is
// hidden: the resource itself is where it came from.
package redact

// Mark stands where something was hidden.
const Mark = "[redacted]"
