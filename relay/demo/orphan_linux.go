package demo

import (
	"os/exec"
	"syscall"
)

// dieWithUs ends the process when this one ends, however it does.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
