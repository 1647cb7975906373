package lastgood

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// A sealed record is the magic, the version of the format, the ID of the key that it is encrypted
// with (empty for none), the type URL, both preceded by their length as a varint, and the record:
// compressed, and then encrypted. The header is authenticated together with the record.
const (
	magic         = "xdskept"
	sealedVersion = 1
)

// A record is also bounded before compression, since a record that another program has written must
// not exhaust the memory: by a multiple of its compressed bound, and by a number of bytes. Both are
// far above what clients are sent of one type, even if it compresses well.
const (
	unpackedTimes = 4
	maxUnpacked   = 1 << 30
)

// Errors of a sealed record.
var (
	errForeign     = errors.New("it is not a record, or from a later version of the program")
	errPlain       = errors.New("it is not encrypted although keys are configured: its author is unknown")
	errUnknownKey  = errors.New("it is encrypted with a key that is not in the keys file")
	errNotOpened   = errors.New("it was changed, or encrypted with another key of the same ID, or is of another tier, key or type")
	errTooLarge    = errors.New("it is larger than last_known_good.max_size, or than four times that before it is compressed")
	errBomb        = errors.New("uncompressed it is larger than any record, which has at most four times last_known_good.max_size")
	errPacked      = errors.New("it cannot be decompressed")
	errUnencrypted = errors.New("it is only stored encrypted, and no keys are configured")

	errHoldsSecrets = errors.New("a resource has content that may be secret and is only stored encrypted, and no keys are configured: set last_known_good.encryption_keys_file")
)

// sealer seals and opens the records of one tier. Its methods are safe for concurrent use.
type sealer struct {
	// Fixed after construction.
	prefix string
	keys   *Keys // nil: nothing is encrypted
	max    int   // of a sealed record, in bytes
	most   int   // of a record before it is compressed, in bytes
	pack   *zstd.Encoder
	unpack *zstd.Decoder
}

func newSealer(prefix string, keys *Keys, limit int) (*sealer, error) {
	s := &sealer{prefix: prefix, keys: keys, max: limit, most: min(limit*unpackedTimes, maxUnpacked)}
	var err error
	if s.pack, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)); err != nil {
		return nil, err
	}
	s.unpack, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(writers), zstd.WithDecoderMaxMemory(uint64(s.most)), zstd.WithDecodeAllCapLimit(true))
	return s, err
}

func (s *sealer) close() {
	_ = s.pack.Close()
	s.unpack.Close()
}

// seal compresses and encrypts a record.
func (s *sealer) seal(key, url string, record []byte) ([]byte, error) {
	if len(record) > s.most {
		return nil, errTooLarge
	}
	if s.keys == nil {
		return s.within(s.pack.EncodeAll(record, header("", url)))
	}
	ring := s.keys.file.Get()
	head := header(ring.first, url)
	return s.within(ring.byID[ring.first].Seal(head, nil, s.pack.EncodeAll(record, nil), s.bound(head, key)))
}

func (s *sealer) within(sealed []byte) ([]byte, error) {
	if len(sealed) > s.max {
		return nil, errTooLarge
	}
	return sealed, nil
}

// open is the reverse of seal. It returns the type of the record, too.
func (s *sealer) open(key string, sealed []byte) (url string, record []byte, err error) {
	id, url, rest, ok := splitHeader(sealed)
	if !ok {
		return "", nil, errForeign
	}
	if s.keys != nil {
		if id == "" {
			return url, nil, errPlain
		}
		with := s.keys.file.Get().byID[id]
		if with == nil {
			return url, nil, errUnknownKey
		}
		if rest, err = with.Open(nil, nil, rest, s.bound(sealed[:len(sealed)-len(rest)], key)); err != nil {
			return url, nil, errNotOpened
		}
	} else if id != "" {
		return url, nil, errUnknownKey
	}
	record, err = s.uncompress(rest)
	return url, record, err
}

// uncompress is the reverse of the first step of seal. It allocates once, the size that the record
// states, and accepts no more.
func (s *sealer) uncompress(packed []byte) ([]byte, error) {
	const unstated = 256 // below that seal does not always state the size
	var frame zstd.Header
	if err := frame.Decode(packed); err != nil {
		return nil, fmt.Errorf("%w: %w", errPacked, err)
	}
	size := uint64(unstated)
	if frame.HasFCS {
		size = frame.FrameContentSize
	}
	if size > uint64(s.most) {
		return nil, fmt.Errorf("%w: it has %d bytes", errBomb, size)
	}
	record, err := s.unpack.DecodeAll(packed, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPacked, err)
	}
	return record, nil
}

// bound returns the additional data that a record is bound to.
func (s *sealer) bound(head []byte, key string) []byte {
	b := appendPart(nil, s.prefix)
	b = appendPart(b, key)
	return append(b, head...)
}

func header(id, url string) []byte {
	b := append([]byte(magic), sealedVersion)
	return appendPart(appendPart(b, id), url)
}

func appendPart(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func splitHeader(b []byte) (id, url string, rest []byte, ok bool) {
	if len(b) <= len(magic) || string(b[:len(magic)]) != magic || b[len(magic)] != sealedVersion {
		return "", "", nil, false
	}
	rest = b[len(magic)+1:]
	if id, rest, ok = cutPart(rest); !ok {
		return "", "", nil, false
	}
	url, rest, ok = cutPart(rest)
	return id, url, rest, ok && len(rest) > 0
}

func cutPart(b []byte) (s string, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return "", nil, false
	}
	end := n + int(size)
	return string(b[n:end]), b[end:], true
}
