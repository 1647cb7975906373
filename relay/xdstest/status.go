package xdstest

import (
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endStatus is the status of a stream that ended with err, where io.EOF stands
// for OK.
func endStatus(err error) *status.Status {
	if err == nil || errors.Is(err, io.EOF) {
		return status.New(codes.OK, "")
	}
	return status.Convert(err)
}
