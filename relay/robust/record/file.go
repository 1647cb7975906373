package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// File is a recording on disk: a line of JSON for each event, compressed with zstd.
type File struct {
	file *os.File
	zip  *zstd.Encoder
	buf  *bufio.Writer
	json *json.Encoder
}

// Create makes a file, in place of one of the same name.
func Create(path string) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("record to a file: %w", err)
	}
	zip, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("record to a file: %w", err)
	}
	buf := bufio.NewWriter(zip)
	return &File{file: file, zip: zip, buf: buf, json: json.NewEncoder(buf)}, nil
}

// Write adds events.
func (f *File) Write(events []Event) error {
	for i := range events {
		if err := f.json.Encode(&events[i]); err != nil {
			return fmt.Errorf("record to a file: %w", err)
		}
	}
	return nil
}

// Close ends the file.
func (f *File) Close() error {
	return errors.Join(f.buf.Flush(), f.zip.Close(), f.file.Close())
}

// Read gives the events of a file to f, one after the other, until f fails.
func Read(path string, f func(*Event) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a recording: %w", err)
	}
	defer file.Close()
	return read(file, f)
}

// maxWindow bounds what decompression keeps, in bytes. Our own files need 4 MiB.
const maxWindow = 8 << 20

func read(file io.Reader, f func(*Event) error) error {
	zip, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return fmt.Errorf("read a recording: %w", err)
	}
	defer zip.Close()
	for lines := json.NewDecoder(zip); ; {
		var e Event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a recording: %w", err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
}
