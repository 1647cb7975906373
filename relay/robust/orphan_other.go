//go:build !linux

package robust

import "os/exec"

// dieWithUs does nothing: only Linux can tie one process to another.
func dieWithUs(*exec.Cmd) {}
