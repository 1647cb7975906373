//go:build unix

package h2

import "syscall"

// canTry says that descriptors can be read without waiting.
const canTry = true

const errTryAgain = syscall.EAGAIN

func readDescriptor(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), b)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

func setReceiveBuffer(fd uintptr, n int) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, n)
}
