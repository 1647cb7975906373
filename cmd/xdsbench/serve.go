package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/bench/content"
	"xdsrelay/bench/control"
	"xdsrelay/bench/drive"
)

// serving is what the commands that serve clients have in common: flags, and
// how they run.
type serving struct {
	spec    content.Spec
	listen  string
	files   int
	control bool
	// The schedule of a server that is not a child.
	kind, typeName string
	schedule       drive.Schedule
}

func (s *serving) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&s.spec.Keys, "keys", 1, "how many keys there are")
	flags.IntVar(&s.spec.Clusters, "resources", 100, "how many clusters, and as many endpoint assignments, each key has")
	flags.IntVar(&s.spec.Listeners, "listeners", 0, "how many listeners, and as many route configurations, each key has")
	flags.IntVar(&s.spec.Size, "size", 0, "the `BYTES` of each cluster; 0 means as few as it takes")
	flags.BoolVar(&s.spec.Equal, "equal", false, "give all keys the resources of the first one")
	flags.IntVar(&s.spec.EndpointSize, "endpoint-size", 0, "the `BYTES` of each endpoint assignment; 0 means as few as it takes")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:0", "the `ADDR`ess to listen at, an IPv4 address and a port; 0 is a free port")
	flags.IntVar(&s.files, "open-files", 0, "check that so many connections can be open; 0 means no check")
	flags.BoolVar(&s.control, "control", false, "be a child: take orders as lines of JSON on standard input, and ignore the schedule")
	flags.StringVar(&s.kind, "change", string(content.One), "what changes by schedule: one resource, a burst of them, or all: one, burst or full")
	flags.IntVar(&s.schedule.Resources, "burst", 0, "how many resources change in a burst")
	flags.StringVar(&s.typeName, "change-type", "", "the `TYPE` that changes: cds, eds, lds or rds; empty means cds, or all in a full change")
	flags.DurationVar(&s.schedule.Interval, "every", 0, "the time from one change to the next; 0 means that nothing changes")
	flags.IntVar(&s.schedule.Count, "changes", 0, "how many changes there are; 0 means no end")
}

// check completes what the flags said.
func (s *serving) check() error {
	if err := s.spec.Validate(); err != nil {
		return usageError{err}
	}
	s.schedule.Kind = content.Kind(s.kind)
	if s.typeName != "" {
		var ok bool
		if s.schedule.Type, ok = content.TypeByName(s.typeName); !ok {
			return usageError{fmt.Errorf("change type: got %q, expected cds, eds, lds or rds", s.typeName)}
		}
	}
	if s.schedule.Interval != 0 {
		if err := s.schedule.Validate(&s.spec); err != nil {
			return usageError{err}
		}
	}
	if s.files > 0 {
		return control.OpenFiles(s.files)
	}
	return nil
}

// run lets a server listen until the context ends: as a child, or on its own
// with a line of progress every second and the counts at the end.
func (s *serving) run(ctx context.Context, a *app, server drive.Server) error {
	d, err := drive.New(server, s.listen)
	if err != nil {
		return err
	}
	defer d.Close()
	if s.control {
		return control.Serve(ctx, a.stdin, a.stdout, drive.Ready{Addr: d.Addr()}, d.Handlers())
	}
	fmt.Fprintf(a.stderr, "xdsbench: listening at %s\n", d.Addr())
	if s.schedule.Interval != 0 {
		if _, err := d.Start(s.schedule); err != nil {
			return usageError{err}
		}
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for last := (drive.Stats{}); ; {
		select {
		case <-second.C:
			now := d.Stats()
			fmt.Fprintf(a.stderr, "revision %d, %d streams, %d requests/s, %d responses/s, %d KB/s\n", now.Revision, now.Streams,
				now.Requests-last.Requests, now.Responses-last.Responses, (now.BytesOut-last.BytesOut)/1000)
			if now.Error != "" && last.Error == "" {
				fmt.Fprintf(a.stderr, "xdsbench: the schedule has ended: %s\n", now.Error)
			}
			last = now
			continue
		case <-ctx.Done():
		}
		summary := json.NewEncoder(a.stdout)
		summary.SetIndent("", "  ")
		return summary.Encode(d.Stats())
	}
}
