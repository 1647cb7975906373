package robust

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that stay, but for those of the proxies: they end
// when what they copy ends, which nobody can wait for.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).Start.func1"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	)
}
