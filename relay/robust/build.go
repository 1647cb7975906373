package robust

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build builds the relay into a folder and returns where it is. It is built without
// the profile, as tests are. moduleDir is a folder of the repository.
func Build(ctx context.Context, moduleDir, into string) (string, error) {
	binary := filepath.Join(into, "xdsrelay")
	cmd := exec.CommandContext(ctx, "go", "build", "-pgo=off", "-o", binary, "xdsrelay/cmd/xdsrelay")
	cmd.Dir = moduleDir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the relay: %w\n%s", err, out)
	}
	return binary, nil
}
