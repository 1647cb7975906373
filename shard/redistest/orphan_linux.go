package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithUs ends the server when the test process ends for any reason.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
