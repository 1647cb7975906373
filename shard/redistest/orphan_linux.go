package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithUs ends the server when the test's process ends, however it does.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
