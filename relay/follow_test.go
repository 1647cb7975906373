package relay_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestHalfAFile: a file that is being written is read once nobody writes any more, and
// in the end although somebody does. Whoever gives the order has it read as it is.
func TestHalfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		origin := network.NewStateOrigin(t, (*corev3.Node).GetCluster)
		cfg := testConfig()
		cfg.Admin.Address, cfg.Upstream.Addresses = "", []string{origin.Addr()}
		file := filepath.Join(t.TempDir(), "relay.yaml")
		replace(t, file, []byte("whole"))
		var reads, halves atomic.Int32
		signals := make(chan os.Signal)
		n := startWith(t, cfg, relay.Options{
			Version: "v-test", Listen: network.Listen, Dial: network.Dial,
			Source: relay.Source{File: file, Signals: signals, Load: func() (*config.Config, error) {
				reads.Add(1)
				text, err := os.ReadFile(file)
				if err == nil && !bytes.HasSuffix(text, []byte("whole")) {
					halves.Add(1)
					err = errors.New("it ends in the middle")
				}
				return cfg, err
			}},
		})
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		write := func(text string, pause time.Duration) {
			t.Helper()
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause) //nolint:forbidigo // virtual time
		}
		for range 30 { // for longer than it takes until the file is looked at
			write("part", 100*time.Millisecond)
		}
		write("whole", 2*time.Second)
		if r, h := reads.Load(), halves.Load(); r != 1 || h != 0 {
			t.Errorf("it was read %d times, and %d times in the middle, expected once when it was whole", r, h)
		}
		for range 50 {
			write("part", 200*time.Millisecond)
		}
		if h := halves.Load(); h == 0 || n.Settings().Rejected == "" {
			t.Errorf("who is written for ever was read %d times", h)
		}

		write("whole", 5*time.Second)
		write("part", 0)
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		select {
		case signals <- os.Interrupt:
			synctest.Wait()
		case <-ctx.Done():
			t.Error("a signal waits")
		}
		if n.Settings().Rejected == "" {
			t.Error("a signal did not have it read at once")
		}
		write("whole", 0)
		if state, err := n.Reload(); err != nil || state.Rejected != "" {
			t.Errorf("an order: %+v, %v", state, err)
		}
	})
}
