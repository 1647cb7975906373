//go:build !unix

package h2

import "errors"

// canTry says that descriptors can be read without waiting.
const canTry = false

var errTryAgain = errors.New("try again")

func readDescriptor(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func setReceiveBuffer(uintptr, int) error { return errors.ErrUnsupported }
