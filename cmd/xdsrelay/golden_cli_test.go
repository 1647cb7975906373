package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// goldenCalls are the command lines, in this order: the last one ends the node. Those that would
// not end are ended after some seconds.
var goldenCalls = []string{
	"config validate -c testdata/golden/relay.yaml",
	"config validate -c testdata/golden/changed.yaml --against-running",
	"config validate -c testdata/golden/changed.yaml --against-running -o json",
	"config validate -c testdata/golden/changed.yaml --against-running -o name",
	"config validate -c testdata/golden/relay.yaml -o json",
	"bootstrap envoy --relay relay.example:18000 --node-id web-1 --node-cluster web",
	"bootstrap grpc --relay relay.example:18000 --node-id web-1 --node-cluster web",
	"migrate ../../relay/migrate/testdata/bootstrap.yaml ../../relay/migrate/testdata/rules.yaml",
	"config env",
	"config env -o json",
	"config env -o name",
	"context list",
	"explain --node-file testdata/golden/node.json --offline",
	"explain --node-file testdata/golden/node.json --offline -o json",
	"explain --node-file testdata/golden/node.json --offline -o name",
	"explain --node-file testdata/golden/node.json --offline --key-expression node.metadata.team",
	"explain --node-file testdata/golden/node.json",
	"explain --node-file testdata/golden/node.json -o json",
	"explain --node-file testdata/golden/node.json -o name",
	"explain --node-file testdata/golden/node.json -c testdata/golden/relay.yaml",
	"explain --node-file testdata/golden/node.json -c testdata/golden/relay.yaml -o yaml",
	"nodes",
	"nodes -o wide",
	"nodes -o json",
	"nodes -o name",
	"keys",
	"keys -o wide",
	"keys -o json",
	"keys -o name",
	"keys shop",
	"keys none",
	"status",
	"status -o wide",
	"status -o json",
	"status -o name",
	"status -o yaml --key edge",
	"status --limit 3 --sort since",
	"status --limit 1 -o json --sort state",
	"status --limit 2 -o name",
	"status --state nacked,stale --type CDS",
	"status --state synced --node none",
	"status delta-rejects",
	"status delta-rejects --resources",
	"status sotw-rejects -o json --resources",
	"status delta-stalls",
	"status sotw-waits",
	"status rest-cds",
	"status delta-rejects --events",
	"status sotw-waits --events -o wide",
	"status silent --events",
	"status delta-stalls --events -o name",
	"status rest-cds --events",
	"status dleta-eds --events",
	"status delta",
	"status dleta-eds",
	"status --fail-on nacked",
	"status --wait --timeout 1s",
	"status --watch --state nacked",
	"who shop-a --type CDS",
	"who shop-a -o wide",
	"who shop-* --type cds --state nacked,stale",
	"who missing",
	"who private -o json",
	"who edge-a --type CDS -o yaml",
	"who shop-a --state synced -o name",
	"who * --limit 2",
	"who shopp-a",
	"who none --type LDS --key shop",
	"diff sotw-ads",
	"diff sotw-rejects",
	"diff delta-stalls",
	"diff delta-stalls -o json",
	"diff delta-stalls -o name",
	"diff none",
	"diff delta-ads delta-rejects",
	"diff sotw-ads delta-secret -o json",
	"diff --keys shop edge",
	"diff --keys shop edge --type CDS -o wide",
	"diff --keys shop edge -o name",
	"diff shop --nodes a,b",
	"diff shop edge",
	"diff --keys shop none",
	"diff delta-ads delta-ads",
	"diff shop --nodes a",
	"diff shop w4 w6",
	"diff shop 4 4",
	"diff shop 0 w6 --type CDS -o name",
	"diff shop 4 99",
	"diff shop 4 6 --keys",
	"dump edge",
	"dump edge -o json",
	"dump edge -o table",
	"dump edge -o wide",
	"dump edge -o name",
	"dump shop --type CDS --node a",
	"dump none",
	"history shop",
	"history shop -o wide --type CDS -n 1",
	"history shop -o json",
	"history shop -o name --type CDS",
	"history shop --node none",
	"history shop --show 5",
	"history shop --from w4 --to w6",
	"history shop --from 0 --type CDS -o name",
	"history shop --show 99",
	"history shop --show last -o json",
	"history shop --to 3",
	"status --wait --version w5 --key shop --timeout 1s",
	"status --wait --version w5 --timeout 1s",
	"status --wait --version none --timeout 1s",
	"status --version w5",
	"history none",
	"events --kind node.started",
	"events --kind node.started -o wide --tail 1",
	"events --kind node.started --since 1000h -o json",
	"events --kind node.started -o name",
	"events --key none --kind owner",
	"events --kind bad",
	"events --tail 0",
	"top --once",
	"top --once -o json",
	"top --once -o name",
	"log-level",
	"log-level upstream=debug",
	"log-level -o json",
	"reload",
	"reload -o json",
	"reconnect",
	"reconnect -o yaml",
	"reconnect --all-nodes --dry-run",
	"kick sotw-ads --dry-run",
	"kick none --dry-run",
	"resend sotw-ads --dry-run",
	"resend sotw-ads --type CDS",
	"rollout status",
	"rollout status none",
	"rollout history none",
	"rollout diff shop",
	"rollout freeze shop --reason test",
	"rollout freeze",
	"rollout plan shop",
	"rollout approve shop",
	"rollout promote shop --reason test",
	"rollout pause shop --reason test",
	"rollout abort shop --reason test",
	"rollout retry shop",
	"rollout resume --all",
	"rollout unfreeze shop",
	"rollout undo none --reason test",
	"removals list",
	"removals list -o yaml",
	"removals list -o name",
	"removals approve none",
	"removals approve guarded",
	"removals approve guarded -o json",
	"removals list",
	"client --node-cluster shop",
	"client --node-cluster shop --variant sotw --per-type -o wide --timeout 2s",
	"client --node-cluster edge -o json SDS/private CDS/edge-a",
	"client --node-cluster shop -o name LDS/shop-l EDS/none --references",
	"client --node-cluster shop --nack CDS",
	"client CDS --node-cluster shop --watch",
	"client CDS --node-cluster shop --watch --for 1s -o json --nack CDS=odd",
	"client --node-cluster shop --compare 127.0.0.1:18001 --timeout 2s",
	"client --server 127.0.0.1:19000",
	"client --node-id x",
	"rules apply --dry-run",
	"rules apply --pace 10/m -o json",
	"rules apply --pace 10",
	"drain -o json",
	"drain",
	"drain --wait --timeout 1s",
}

// goldenCommand returns the path of the command that a command line calls.
func goldenCommand(t *testing.T, args []string) string {
	t.Helper()
	cmd, _, err := (&app{}).newRootCmd().Find(args)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.CommandPath()
}

// TestGoldenCommands: what the commands print about a node on its own and about a tier.
func TestGoldenCommands(t *testing.T) {
	for world, names := range goldenNodes {
		t.Run(world, func(t *testing.T) {
			inGoldenWorld(t, names, func(t *testing.T, w *goldenWorld) {
				files := make(map[string]string)
				for _, line := range goldenCalls {
					args := strings.Fields(line)
					var stdout, stderr bytes.Buffer
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					code := (&app{stdout: &stdout, stderr: &stderr, dial: w.dial}).run(ctx, args)
					cancel()
					file := strings.ReplaceAll(goldenCommand(t, args), " ", "_") + ".txt"
					files[file] += fmt.Sprintf("=== xdsrelay %s\nexit code %d\n\n%s\n\n", line, code, stable("", stdout.String()))
					if stderr.Len() > 0 {
						files[file] += fmt.Sprintf("--- standard error\n%s\n\n", stable("", stderr.String()))
					}
				}
				compareGolden(t, filepath.Join("testdata", "golden", world+"_commands"), files)
			})
		})
	}
}

// TestGoldenCommandsAreComplete holds that each command has a golden file.
func TestGoldenCommandsAreComplete(t *testing.T) {
	called := make(map[string]bool)
	for _, line := range goldenCalls {
		called[goldenCommand(t, strings.Fields(line))] = true
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		path := c.CommandPath()
		if help := len(c.Commands()) > 0 && !c.Flags().HasFlags(); !help && c.Runnable() && !called[path] && withoutGolden[path] == "" {
			t.Errorf("%s has no golden file: add a call to goldenCalls", path)
		}
	}
	walk((&app{}).newRootCmd())
}
