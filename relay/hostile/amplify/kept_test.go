package amplify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// shelf is a node that keeps records in a directory, where it has files for more keys than
// there are rows. A node reads the files that were there when it started, of a key when its
// first client connects.
type shelf struct {
	*node

	directory string
	cc        *grpc.ClientConn
	next      int // the key of the next row

	// sample is what the node itself has written of a key.
	header string
	record []byte // before it is compressed
}

// shelfKeys is for how many keys there are files. They are used in turn.
const shelfKeys = 4096

// recordFile is the name of the record of a key and a type in a directory.
func recordFile(key, url string) string {
	digest := func(s string, digits int) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])[:digits]
	}
	return digest(key, 40) + "-" + digest(url, 24) + ".good"
}

func shelfKey(i int) string { return fmt.Sprint("kept-", i%shelfKeys) }

// startShelf starts the node.
func startShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{directory: t.TempDir()}
	for i := range shelfKeys {
		write(t, s.file(shelfKey(i)), "")
	}
	s.node = startNode(t, setup{Origin: startAnswers(t), Delta: true, LastGood: s.directory})
	s.after = " settled" // nobody learns when it has read something
	s.cc = dial(t, s.XDS)

	ctx, end := context.WithCancel(t.Context())
	var client sync.WaitGroup
	client.Go(func() { _ = subscribe(ctx, s.cc, fleetKey) }) // until the end
	xdstest.Eventually(t, "the node to keep a record of the key", func() bool {
		kept, err := os.ReadFile(s.file(fleetKey))
		if err != nil {
			return false
		}
		s.header, s.record = unsealed(t, kept)
		return true
	})
	end()
	client.Wait()
	return s
}

func (s *shelf) file(key string) string {
	return filepath.Join(s.directory, recordFile(key, content.ClusterURL))
}

// visit writes the file of a key, and makes a client connect that gets the key.
func (s *shelf) visit(t *testing.T, spoil func(key string) []byte) int {
	t.Helper()
	s.next++
	key := shelfKey(s.next)
	b := spoil(key)
	write(t, s.file(key), string(b))
	ctx, end := context.WithTimeout(t.Context(), xdstest.Patience)
	defer end()
	c, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.cc).DeltaAggregatedResources(ctx, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1<<30))
	if err == nil {
		err = c.Send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(key), TypeUrl: content.ClusterURL})
	}
	if err == nil {
		_, err = c.Recv()
	}
	if err != nil {
		t.Errorf("a client is not served: %v", err)
	}
	return len(b)
}

// rows are the rows of the files in last_known_good.directory: of records that differ from one that
// the node has written in one field, and of files that are none.
func (s *shelf) rows(t *testing.T, all bool) (rows []row) {
	t.Helper()
	const surface, message = "files", "last_known_good.directory"
	rows = spoiledRecords(t, surface, message, s.record, all, func(t *testing.T, spoil func(key string) []byte) (size int) {
		t.Helper()
		s.visit(t, func(key string) []byte {
			record := spoil(key)
			size = len(record)
			return sealed(t, s.header, record)
		})
		return size
	})
	add := func(field, pattern string, fill func(size int) []byte) {
		rows = append(rows, row{surface: surface, message: message, field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			return s.visit(t, func(string) []byte { return fill(size) })
		}})
	}
	for _, p := range parts {
		add("(file)", p.name, func(size int) []byte { return []byte(p.fill(size)) })
		add("(header)", p.name, func(size int) []byte { return append([]byte(s.header[:8]), p.fill(size)...) })
	}
	add("(file)", "data that is skipped", func(size int) []byte { return append([]byte(s.header), skipped(strings.Repeat("x", size))...) })
	add("(file)", "many parts that are skipped", func(size int) []byte {
		return append([]byte(s.header), strings.Repeat(string(skipped("")), size/8)...)
	})
	add("(file)", "compressed a thousandfold", func(size int) []byte {
		return sealed(t, s.header, []byte(strings.Repeat("x", min(1000*size, 256<<20))))
	})
	return rows
}

// TestShelf holds that the node reads the files that the rows are about.
func TestShelf(t *testing.T) {
	s := startShelf(t)
	before := s.unusable(t)
	s.visit(t, func(string) []byte { return []byte("no record") })
	xdstest.Eventually(t, "the node to count a record that it cannot use", func() bool { return s.unusable(t) == before+1 })
}

// unusable is how many records the node could not use, as its metrics say.
func (s *shelf) unusable(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(get(t, "http://"+s.Metrics+"/metrics")) {
		if strings.HasPrefix(line, "xdsrelay_last_known_good_reads_total") && strings.Contains(line, `outcome="unusable"`) {
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}
