package floor

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// sender sends a *message: a gRPC stream or a TCP connection.
type sender interface{ SendMsg(m any) error }

// peer is a client's stream, and all that a floor holds for it.
type peer struct {
	to  sender // fixed
	key int    // fixed once joined
	at  int    // its place among the key's peers; guarded by Floor.mu
	// sending is held while to sends, and while the peer leaves.
	sending sync.Mutex
	left    bool // guarded by sending

	// Owned by the stream's handler.
	joined   bool
	answered uint8 // the types whose first request was answered, by bits
}

// join lets a peer get the changes of key k.
func (f *Floor) join(p *peer, k int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.joined, p.key, p.at = true, k, len(f.keys[k].peers)
	f.keys[k].peers = append(f.keys[k].peers, p)
}

// leave is the end of a peer: nothing is sent to it any more.
func (f *Floor) leave(p *peer) {
	if p.joined {
		f.mu.Lock()
		peers := f.keys[p.key].peers
		last := len(peers) - 1
		peers[p.at] = peers[last]
		peers[p.at].at = p.at
		peers[last] = nil
		f.keys[p.key].peers = peers[:last]
		f.mu.Unlock()
	}
	p.sending.Lock()
	p.left = true
	p.sending.Unlock()
}

// chunkSize is how many streams a core takes at a time.
const chunkSize = 64

// job is a chunk of streams with what they get.
type job struct {
	peers    []*peer
	messages []*message
}

// broadcast does jobs, on all cores.
func (f *Floor) broadcast(jobs []job) {
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		working.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				f.do(jobs[i])
			}
		})
	}
	working.Wait()
}

func (f *Floor) do(j job) {
	for _, m := range j.messages {
		sent := 0
		for _, p := range j.peers {
			p.sending.Lock()
			if !p.left && p.to.SendMsg(m) == nil { // who cannot be sent to is about to leave
				sent++
			}
			p.sending.Unlock()
		}
		f.counter.Responses(m.typeURL, sent, m.size())
	}
}
