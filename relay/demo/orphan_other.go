//go:build !linux

package demo

import "os/exec"

// dieWithUs does nothing: only Linux can tie one process to another.
func dieWithUs(*exec.Cmd) {}
