package xdstest

import "google.golang.org/protobuf/proto"

// Event is something that a client did at an [Origin] or a [StateOrigin]: it
// opened a stream, sent a request or ended the stream. A [StateOrigin] tells of its
// responses, too.
type Event struct {
	Stream  int // numbered from 1 for each origin
	Variant Variant

	Opened  *OriginStream // the new stream of an [Origin]; nil at a [StateOrigin]
	Request *Request      // nil unless it is a request
	Ended   bool          // the stream is over, from whichever side

	Response proto.Message // what a [StateOrigin] is about to send; not to be changed
}
