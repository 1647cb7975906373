package h2

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

type inflater struct {
	gz gzip.Reader
	in bytes.Reader
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// gunzip returns what m holds, in a buffer that is to be given back.
func gunzip(m []byte, most int) (*[]byte, error) {
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	f.in.Reset(m)
	if err := f.gz.Reset(&f.in); err != nil {
		return nil, err
	}
	out := takeBuffer(4 * len(m))
	b := *out
	for {
		if len(b) == cap(b) {
			larger := takeBuffer(2 * cap(b))
			b = append(*larger, b...)
			giveBuffer(out)
			out = larger
		}
		n, err := f.gz.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if len(b) > most {
			giveBuffer(out)
			return nil, fmt.Errorf("it holds more than %d bytes", most)
		}
		if err != nil {
			*out = b
			if errors.Is(err, io.EOF) {
				return out, nil
			}
			giveBuffer(out)
			return nil, err
		}
	}
}
