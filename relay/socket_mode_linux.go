package relay

import "syscall"

// socketMode gives what is bound to a socket its permissions from the beginning: the file
// gets those of the socket, less the umask.
func socketMode(fd uintptr, mode uint32) error { return syscall.Fchmod(int(fd), mode) }
