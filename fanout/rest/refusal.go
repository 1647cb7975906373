package rest

import (
	"encoding/json"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	return &answer{status: httpStatus, body: body}
}

// maxMessage bounds the message of a refusal, in bytes; it may quote the request.
const maxMessage = 1 << 10

// refusal makes the answer for an error that is a gRPC status.
func refusal(err error) *answer {
	st := status.Convert(err)
	return refuse(st.Code(), httpStatus(st.Code()), st.Message())
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
