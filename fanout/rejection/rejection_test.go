package rejection_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"xdsrelay/fanout/rejection"
)

// TestCode: a gRPC code is a label value in snake_case.
func TestCode(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.OK: "ok", codes.InvalidArgument: "invalid_argument", codes.Internal: "internal", codes.DeadlineExceeded: "deadline_exceeded",
	} {
		if got := rejection.Code(code); got != want {
			t.Errorf("%v is %q, want %q", code, got, want)
		}
	}
}
