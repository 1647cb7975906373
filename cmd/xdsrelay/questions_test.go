package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// questionsPage lists questions of operators with the commands that answer them, by the situation in
// which they are asked.
const questionsPage = "../../docs/internals/operators-questions.md"

// operatorsQuestion is a row of that page.
type operatorsQuestion struct {
	text, command string
	contains      []string
}

// TestOperatorsQuestions: the commands of the page answer its questions, asked of a tier of three
// processes with Redis, in each situation. An answer names the cause.
func TestOperatorsQuestions(t *testing.T) {
	page := fileText(t, questionsPage)
	order, all := readQuestions(page)
	for _, alert := range questionsAlerts(t) {
		if !strings.Contains(page, "["+alert+"](../operate/runbook.md#"+strings.ToLower(alert)+")") {
			t.Errorf("%s lacks the alert %s of the runbook, with a link", questionsPage, alert)
		}
	}
	w := newQuestionsTier(t)
	asked := 0
	for _, situation := range order {
		begin, known := situations[situation]
		if !known {
			t.Errorf("%s has a situation %q, which the test cannot bring about", questionsPage, situation)
			continue
		}
		end := begin(t, w)
		for _, q := range all[situation] {
			asked++
			w.ask(t, situation, q)
		}
		if end != nil {
			end()
		}
	}
	if len(order) != len(situations) {
		t.Errorf("%s has %d situations, the test knows %d", questionsPage, len(order), len(situations))
	}
	if asked < 30 {
		t.Errorf("%s has %d questions, expected 30 or more", questionsPage, asked)
	}
}

var questionRow = regexp.MustCompile("^\\| (.+) \\| `([^`]+)` \\| (.+) \\|$")

// readQuestions returns the situations of the page in order, with their questions.
func readQuestions(page string) (order []string, all map[string][]operatorsQuestion) {
	all = make(map[string][]operatorsQuestion)
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "## "); is && name != notMade {
			order = append(order, name)
		}
		m := questionRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		q := operatorsQuestion{text: m[1], command: m[2]}
		for part := range strings.SplitSeq(m[3], " · ") {
			q.contains = append(q.contains, strings.Trim(part, "`"))
		}
		last := order[len(order)-1]
		all[last] = append(all[last], q)
	}
	return order, all
}

// notMade is the section with the alerts whose cause the test cannot make.
const notMade = "Not made here"

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// questionsAlerts are the alerts of the runbook.
func questionsAlerts(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(fileText(t, "../../docs/operate/runbook.md")) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "### XDSRelay"); is {
			all = append(all, "XDSRelay"+name)
		}
	}
	if len(all) < 25 {
		t.Fatalf("the runbook has %d alerts", len(all))
	}
	return all
}

// ask runs the command of a question until the answer contains what it should, at any node.
func (w *questionsTier) ask(t *testing.T, situation string, q operatorsQuestion) {
	t.Helper()
	line := strings.NewReplacer("RELAY", w.clients["b"], "CONTROL_PLANE", w.plane.Addr(), "NODE_A", w.admin["a"]).Replace(q.command)
	calls := callsOf(line)
	if len(calls) != 1 {
		t.Errorf("%s: %q is not one call of xdsrelay", questionsPage, q.command)
		return
	}
	var text string
	var missing []string
	for deadline := time.Now().Add(questionPatience); ; {
		text, missing = w.answer(t, calls[0]), nil
		for _, part := range q.contains {
			if !strings.Contains(text, part) {
				missing = append(missing, part)
			}
		}
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the state of processes cannot be waited for in another way
	}
	if len(missing) > 0 {
		t.Errorf("%s: %s\n%s lacks %q in\n%s", situation, q.text, q.command, missing, text)
	}
}

// answer is what a call of the program prints, asked of node b.
func (w *questionsTier) answer(t *testing.T, call []string) string {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	code := run(ctx, call, []string{config.CLIAdmin + "=" + w.admin["b"], "HOME=" + w.dir}, &out, &out)
	return fmt.Sprintf("%s\nexit code %d", out.String(), code)
}

// await waits until the answer to a command of the program is as a situation needs it.
func (w *questionsTier) await(t *testing.T, what, command string, is func(answer string) bool) {
	t.Helper()
	xdstest.Eventually(t, what, func() bool { return is(w.answer(t, []string{command})) })
}
