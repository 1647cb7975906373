package sharedgzip

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/flate"
)

// sizes of bodies, in bytes.
var sizes = []int{1 << 10, 10 << 10, 100 << 10, 1 << 20}

// likeClusters makes a body as repetitive as clusters: mostly the same text, with different names,
// ports and ids in it.
func likeClusters(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "\x0a\x31type.googleapis.com/envoy.config.cluster.v3.Cluster\x12outbound|%d||service-%d.team-%d.svc.cluster.local\x1a\x02\x08\x05"+
			"envoy.transport_sockets.tls\x12default\x1aROOTCA\x22istio-peer-exchange\x2aistio\xff\xff\xff\xff\x0f%d%016x", 8000+i%20, i, r.IntN(40), r.IntN(50), r.Uint64())
	}
	return b.Bytes()[:size]
}

// BenchmarkClient measures the cost of one more client above the transport for three ways: the body
// compressed once, a compressor per client, and an uncompressed copy. sent/op is the bytes sent.
func BenchmarkClient(b *testing.B) {
	var c Compressor
	for _, size := range sizes {
		body, nonce := likeClusters(size), []byte("*\x081234567")
		m := c.Compress(body)
		room := make([]byte, size+64)
		run := func(how string, client func() int) {
			b.Run(fmt.Sprintf("%s/%d", how, size), func(b *testing.B) {
				b.ReportAllocs()
				sent := 0
				for b.Loop() {
					sent = client()
				}
				b.ReportMetric(float64(sent), "sent/op")
			})
		}
		// The transport copies the head as well.
		run("once", func() int {
			n := copy(room, m.Head())
			return len(m.AppendTail(room[:n], nonce))
		})
		run("copy", func() int {
			n := copy(room, body)
			return len(append(room[:n], nonce...))
		})
		out := bytes.NewBuffer(room)
		w := gzip.NewWriter(io.Discard)
		run("each", func() int {
			out.Reset()
			w.Reset(out)
			_, _ = w.Write(body)
			_, _ = w.Write(nonce)
			_ = w.Close()
			return out.Len()
		})
	}
}

// BenchmarkCompress measures compressing a body.
func BenchmarkCompress(b *testing.B) {
	var c Compressor
	for _, size := range sizes {
		body := likeClusters(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				c.Compress(body)
			}
			b.ReportMetric(float64(len(c.Compress(body).Head()))/float64(size), "ratio")
		})
	}
}

// BenchmarkLevels compares the levels from which [level] was chosen.
func BenchmarkLevels(b *testing.B) {
	for l := 1; l <= 9; l++ {
		for _, size := range sizes {
			body := likeClusters(size)
			b.Run(fmt.Sprintf("%d/%d", l, size), func(b *testing.B) {
				var out bytes.Buffer
				w, err := flate.NewWriter(&out, l)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
				for b.Loop() {
					out.Reset()
					w.Reset(&out)
					_, _ = w.Write(body)
					_ = w.Flush()
				}
				b.ReportMetric(float64(out.Len())/float64(size), "ratio")
			})
		}
	}
}
