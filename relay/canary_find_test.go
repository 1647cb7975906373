package relay_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// finder looks for secrets in what is put out, also in base64 and in hex.
type finder struct {
	forms  []form
	unpack *zstd.Decoder
}

type form struct {
	what string
	text []byte
}

func newFinder() *finder {
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		panic(err)
	}
	f := &finder{unpack: unpack}
	f.add("a canary", canaryMark)
	return f
}

// add makes it look for one more text.
func (f *finder) add(what, secret string) {
	f.forms = append(f.forms, form{what, []byte(secret)}, form{what + " in hex", []byte(hex.EncodeToString([]byte(secret)))})
	for shift := range 3 { // whatever stands before it
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), secret...))
		begin, end := (shift*8+5)/6, (shift+len(secret))*8/6
		f.forms = append(f.forms, form{what + " in base64", []byte(encoded[begin:end])})
	}
}

// in tells which secrets are in content, and what is around each.
func (f *finder) in(content []byte) (found []string) {
	for _, one := range f.forms {
		if i := bytes.Index(content, one.text); i >= 0 {
			found = append(found, fmt.Sprintf("%s: …%q…", one.what, content[max(0, i-100):min(len(content), i+60)]))
		}
	}
	return found
}

// within is the same for what may be compressed.
func (f *finder) within(content []byte) []string {
	found := f.in(content)
	for rest := content; len(found) == 0; {
		i := bytes.Index(rest, []byte{0x28, 0xb5, 0x2f, 0xfd})
		if i < 0 {
			break
		}
		plain, _ := f.unpack.DecodeAll(rest[i:], nil)
		found = f.in(plain)
		rest = rest[i+1:]
	}
	return found
}
