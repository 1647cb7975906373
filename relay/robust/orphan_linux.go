package robust

import (
	"os/exec"
	"syscall"
)

// dieWithUs ends the process when ours ends, however it does.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
