package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdsget"
)

// getOnce prints the resources when all have arrived, or the time is over.
func (a *app) getOnce(ctx context.Context, f *clientFlags, out *output) error {
	began := time.Now()
	s, err := a.startSession(f, f.server, f.clientTLS, a.retryNote())
	if err != nil {
		return err
	}
	defer s.Close()
	wait, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err = s.Wait(wait)
	took := time.Since(began)
	st := s.State(out.isData())
	if responses(&st) == 0 {
		if last := s.Err(); last != nil {
			return f.clientTLS.advice(last)
		}
		if err != nil && out.isTable() {
			return fmt.Errorf("the server at %s sent no response within %s to %s: it may have nothing for this Node", f.server, took.Round(time.Millisecond), typeNames(&st))
		}
	}
	if err := out.print(a.stdout, gotView(&st, took)); err != nil {
		return err
	}
	if last := s.Err(); last != nil {
		fmt.Fprintf(a.stderr, "xdsrelay: %s\n", printableLines(f.clientTLS.advice(last).Error()))
	}
	if !out.isTable() {
		printMissing(a.stderr, &st)
	}
	if !st.Complete {
		return errQuiet{errIncomplete}
	}
	return nil
}

// retryAfter is how long a server may be unreachable before that is mentioned: it may be starting.
const retryAfter = time.Second

// retryNote returns a function that reports once that the server is unreachable and the client
// continues to try.
func (a *app) retryNote() func(xdsget.Event) {
	began := time.Now()
	var once sync.Once
	return func(e xdsget.Event) {
		if e.Err != nil && !e.Err.Final && time.Since(began) >= retryAfter {
			once.Do(func() { fmt.Fprintf(a.stderr, "%s; retrying\n", printable(e.Err.Error())) })
		}
	}
}

func responses(st *xdsget.State) (n int) {
	for _, t := range st.Types {
		n += t.Responses
	}
	return n
}

// typeNames lists the types of a state.
func typeNames(st *xdsget.State) string {
	return strings.Join(namesOf(st.Types, func(t *xdsget.TypeState) string { return ops.ShortName(t.URL) }), ", ")
}

// gotView is a state in each form of output.
func gotView(st *xdsget.State, took time.Duration) view {
	var names []string
	for _, r := range st.Resources {
		if r.Condition != xdsget.Missing {
			names = append(names, ops.ShortName(r.URL)+"/"+r.Name)
		}
	}
	return view{data: st, names: names, table: func(w io.Writer, wide bool) { gotTable(w, st, took, wide) }}
}

// gotTable prints the resources, and what is missing or rejected.
func gotTable(w io.Writer, st *xdsget.State, took time.Duration, wide bool) {
	header := []string{"TYPE", "NAME", "VERSION", "STATE"}
	if wide {
		header = []string{"TYPE", "NAME", "VERSION", "BYTES", "STATE"}
	}
	rows := [][]string{header}
	for _, r := range st.Resources {
		state := string(r.Condition)
		if r.Problem != "" {
			state += ": " + r.Problem
		}
		version, bytes := r.Version, ""
		if !wide {
			version = shortVersion(version)
		}
		if r.Bytes > 0 {
			bytes = fmt.Sprint(r.Bytes)
		}
		row := []string{ops.ShortName(r.URL), r.Name, version, state}
		if wide {
			row = []string{ops.ShortName(r.URL), r.Name, version, bytes, state}
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 {
		columns(w, rows)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, printable(gotSummary(st, took)))
	for _, t := range st.Types {
		switch {
		case t.Reason != "":
			fmt.Fprintf(w, "%s: the last response was rejected (NACK): %s\n", ops.ShortName(t.URL), printable(t.Reason))
		case t.Accepted+t.Rejected+t.Missing == 0:
			fmt.Fprintf(w, "%s: the server has no resources of this type for the Node\n", ops.ShortName(t.URL))
		}
	}
	for _, v := range st.Violations {
		fmt.Fprintf(w, "protocol violation by the server: %s\n", printable(v))
	}
}

// gotSummary is the line below the table.
func gotSummary(st *xdsget.State, took time.Duration) string {
	var parts []string
	accepted, rejected, missing := 0, 0, 0
	for _, t := range st.Types {
		accepted, rejected, missing = accepted+t.Accepted, rejected+t.Rejected, missing+t.Missing
		if t.Accepted > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.Accepted, ops.ShortName(t.URL)))
		}
	}
	line := fmt.Sprintf("%s from %s (%s) in %s", count(accepted, "resource"), st.Server, st.Variant, took.Round(time.Millisecond))
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	if missing > 0 {
		line += fmt.Sprintf("; %d missing", missing)
	}
	if rejected > 0 {
		line += fmt.Sprintf("; %d rejected", rejected)
	}
	return line
}

// printMissing lists what has not arrived, for forms that are read by programs.
func printMissing(w io.Writer, st *xdsget.State) {
	for _, r := range st.Resources {
		if r.Condition != xdsget.Accepted {
			fmt.Fprintf(w, "%s/%s is %s: %s\n", ops.ShortName(r.URL), printable(r.Name), r.Condition, printable(r.Problem))
		}
	}
}

// watchClient prints each update until an interrupt, or for a time.
func (a *app) watchClient(ctx context.Context, f *clientFlags, out *output) error {
	if f.forTime > 0 {
		timed, cancel := context.WithTimeout(ctx, f.forTime)
		defer cancel()
		ctx = timed
	}
	p := &updatePrinter{app: a, flags: f, out: out, began: time.Now()}
	s, err := a.startSession(f, f.server, f.clientTLS, p.event)
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.Watch(ctx)
	s.Close()
	if fatal, ok := errors.AsType[*xdsget.Error](err); ok {
		return f.clientTLS.advice(fatal)
	}
	st := s.State(false)
	fmt.Fprintf(a.stderr, "%s; %s\n", count(p.updates, "update"), printable(gotSummary(&st, time.Since(p.began))))
	if !st.Complete && errors.Is(err, context.DeadlineExceeded) {
		printMissing(a.stderr, &st)
		return errQuiet{errIncomplete}
	}
	return nil
}
