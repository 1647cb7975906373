package rest

import (
	"encoding/json"
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
)

// statusGone means that the client disconnected, so nobody reads the answer.
const statusGone = 499

// refuse makes an answer with a google.rpc.Status.
func refuse(code codes.Code, httpStatus int, message string) *answer {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "…"
	}
	body, err := json.Marshal(struct {
		Code    codes.Code `json:"code"`
		Message string     `json:"message"`
	}{code, message})
	if err != nil {
		panic(err) // a number and a string can always be encoded
	}
	return &answer{status: httpStatus, body: body, rejection: rejection.Code(code)}
}

// maxMessage bounds the message of a refusal, in bytes; it may quote the request.
const maxMessage = 1 << 10

// refusal makes the answer for an error that is a gRPC status.
func refusal(err error) *answer {
	st := status.Convert(err)
	a := refuse(st.Code(), httpStatus(st.Code()), st.Message())
	if _, limited := errors.AsType[*limit.Refusal](err); limited || authz.Rejected(err) {
		a.rejection = "" // counted where it was decided
	}
	return a
}

func httpStatus(code codes.Code) int {
	switch code {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
