//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browser is a real one that does what it is told; see browser/browser.js. It belongs
// to the test's goroutine.
type browser struct {
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// order is an order of browser.js.
type order map[string]any

// startBrowser starts one, which has no page yet.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", filepath.Join("browser", "browser.js"))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{orders, bufio.NewScanner(answers)}
	b.answers.Buffer(nil, 1<<20)
	t.Cleanup(func() {
		_ = orders.Close() // then it ends
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the browser: %v %s", err, &complaints)
		}
	})
	return b
}

// do carries out orders in turn, until one fails.
func (b *browser) do(all ...order) error {
	for _, o := range all {
		line, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := b.orders.Write(append(line, '\n')); err != nil {
			return err
		}
		if !b.answers.Scan() {
			return errors.Join(errors.New("the browser has ended"), b.answers.Err())
		}
		var answer struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(b.answers.Bytes(), &answer); err != nil {
			return err
		}
		if answer.Error != "" {
			return final{errors.New(answer.Error)}
		}
	}
	return nil
}

// sees waits for a text somewhere in the page, or in what a selector finds.
func sees(text string, within ...string) order {
	if len(within) > 0 {
		return order{"do": "sees", "text": text, "within": within[0]}
	}
	return order{"do": "sees", "text": text}
}

func view(hash string) order { return order{"do": "view", "view": hash} }
