package logs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/grpc/grpclog"
)

// ForGRPC makes grpc-go write its lines to log, as the part "grpc", for
// [grpclog.SetLoggerV2]. What grpc-go calls an error or a warning is about one connection,
// and a node logs what it means for the node. So the levels are one lower: an error is
// WARN, a warning INFO, and everything else DEBUG. Repetition is bounded per level, as for
// other lines.
func ForGRPC(log *slog.Logger) grpclog.LoggerV2 { return fromGRPC{Part(log, GRPC)} }

// fromGRPC is a logger for grpc-go.
type fromGRPC struct{ log *slog.Logger }

// Messages of lines of grpc-go; what it says is an attribute.
const (
	grpcReports = "gRPC reports"
	grpcWarns   = "gRPC warns"
	grpcFails   = "gRPC failed"
)

// longestGRPC bounds what is kept of a line in bytes: peers choose parts of it.
const longestGRPC = 1 << 10

// mostVerbose is the verbosity of grpc-go that is logged at DEBUG; its details of each
// frame are above.
const mostVerbose = 1

// V reports whether lines of a verbosity are logged.
func (g fromGRPC) V(verbosity int) bool {
	return verbosity <= mostVerbose && g.log.Enabled(context.Background(), slog.LevelDebug)
}

func (g fromGRPC) write(level slog.Level, message string, text func() string) {
	ctx := context.Background()
	if !g.log.Enabled(ctx, level) {
		return
	}
	line := strings.TrimSpace(text())
	component, rest, found := strings.Cut(strings.TrimPrefix(line, "["), "]")
	if !found || !strings.HasPrefix(line, "[") {
		component, rest = "", line
	}
	if rest = strings.TrimSpace(rest); len(rest) > longestGRPC {
		rest = strings.ToValidUTF8(rest[:longestGRPC], "") + "…"
	}
	g.log.LogAttrs(ctx, level, message, slog.String("component", component), slog.String("text", rest)) //nolint:sloglint // constants of the callers
}

func sprint(args []any) func() string   { return func() string { return fmt.Sprint(args...) } }
func sprintln(args []any) func() string { return func() string { return fmt.Sprintln(args...) } }
func sprintf(format string, args []any) func() string {
	return func() string { return fmt.Sprintf(format, args...) }
}

func (g fromGRPC) Info(args ...any)   { g.write(slog.LevelDebug, grpcReports, sprint(args)) }
func (g fromGRPC) Infoln(args ...any) { g.write(slog.LevelDebug, grpcReports, sprintln(args)) }
func (g fromGRPC) Infof(format string, args ...any) {
	g.write(slog.LevelDebug, grpcReports, sprintf(format, args))
}

func (g fromGRPC) Warning(args ...any)   { g.write(slog.LevelInfo, grpcWarns, sprint(args)) }
func (g fromGRPC) Warningln(args ...any) { g.write(slog.LevelInfo, grpcWarns, sprintln(args)) }
func (g fromGRPC) Warningf(format string, args ...any) {
	g.write(slog.LevelInfo, grpcWarns, sprintf(format, args))
}

func (g fromGRPC) Error(args ...any)   { g.write(slog.LevelWarn, grpcFails, sprint(args)) }
func (g fromGRPC) Errorln(args ...any) { g.write(slog.LevelWarn, grpcFails, sprintln(args)) }
func (g fromGRPC) Errorf(format string, args ...any) {
	g.write(slog.LevelWarn, grpcFails, sprintf(format, args))
}

// Fatal ends the program, as grpc-go expects.
func (g fromGRPC) Fatal(args ...any)   { g.die(sprint(args)) }
func (g fromGRPC) Fatalln(args ...any) { g.die(sprintln(args)) }
func (g fromGRPC) Fatalf(format string, args ...any) {
	g.die(sprintf(format, args))
}

func (g fromGRPC) die(text func() string) {
	g.write(slog.LevelError, grpcFails, text)
	os.Exit(1)
}
