package scenario

import (
	"os/exec"
	"syscall"
)

// dieWithUs lets the system kill a program that does not read its input when
// this one dies, however that happens.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
