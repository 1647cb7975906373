// Package hostile tries a relay node with clients that mean harm, over real gRPC and
// over HTTP/2 frame by frame, while two hundred good clients on the same node are
// watched.
//
// A [stage] is a node with an origin and the good clients. An [attack] is what its
// clients do to the node, and which refusal they get. [stage.withstands] runs one,
// and holds what must be so during any attack and after it: that changes of the
// origin keep reaching all good clients, that none of their streams ends, that they
// are sent nothing of another key, and that the node has given back what the attack
// took: goroutines, heap, keys, streams, what it asks of the origin.
//
// A new attack is one more entry of a list in a file attack_*_test.go.
//
// The ordinary run uses small sizes and the node of the test's own process. With
// -hostile.full the sizes are those of a serious attack, and the node is a process
// of its own, whose memory as the system sees it is held, too (make hostile).
package hostile

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// full says that sizes and times are those of a serious attack.
var (
	shipped = flag.Bool("hostile.defaults", false, "attack the shipped configuration, too: its memory and times are measured, so nothing else should run")
	full    = flag.Bool("hostile.full", false, "attack with full sizes, and a node in a process of its own")
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(serveAsChild())
	}
	if os.Getenv(crowdEnv) != "" {
		os.Exit(crowdAsChild())
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// size is the small one in the ordinary run.
func size[T any](small, large T) T {
	if *full {
		return large
	}
	return small
}
