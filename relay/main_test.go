package relay_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that are left over. Those by which xDS clients of
// grpc-go read their certificates again are its own, and nobody can end them.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("google.golang.org/grpc/credentials/tls/certprovider/pemfile.(*watcher).run"))
}
