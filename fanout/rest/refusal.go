package rest

import (
	"encoding/json"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// statusGone stands for a client that went away: there is nobody to answer.
const statusGone = 499

// refuse makes an answer that says what is wrong: a google.rpc.Status.
func refuse(code codes.Code, httpStatus int, message string) *answer {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "…"
	}
	body, err := json.Marshal(struct {
		Code    codes.Code `json:"code"`
		Message string     `json:"message"`
	}{code, message})
	if err != nil {
		panic(err) // a number and a text can always be written
	}
	return &answer{status: httpStatus, body: body}
}

// maxMessage bounds what is said of a request, in bytes: it may quote it.
const maxMessage = 1 << 10

// refusal makes the answer for an error with a gRPC status.
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
