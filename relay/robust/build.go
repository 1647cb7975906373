package robust

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build builds the relay into a folder and returns where it is. It is built without
// the profile, as tests are, and with the race detector where the test has it. moduleDir is a folder of the repository.
func Build(ctx context.Context, moduleDir, into string) (string, error) {
	binary := filepath.Join(into, "xdsrelay")
	args := append([]string{"build", "-pgo=off", "-o", binary}, raceFlags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "xdsrelay/cmd/xdsrelay")...)
	cmd.Dir = moduleDir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the relay: %w\n%s", err, out)
	}
	return binary, nil
}
