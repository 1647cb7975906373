package relay

import "syscall"

// birthMode gives what is bound to a socket its permissions from the beginning: the file
// gets those of the socket, less the umask.
func birthMode(fd uintptr, mode uint32) error { return syscall.Fchmod(int(fd), mode) }
