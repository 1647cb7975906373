package relay

import (
	"context"
	"os"
	"time"

	"xdsrelay/relay/secure"
)

const (
	// lookPause is between two looks at the file. A look is a call of stat, which works
	// for every file system and for files behind links that are swapped, as those of
	// Kubernetes are.
	lookPause = 2 * time.Second
	// settlePause is for how long the file has to look the same once it has changed:
	// somebody may be writing it.
	settlePause = 250 * time.Millisecond
	// mostLooks is after how many of these the file is read although it still changes.
	mostLooks = 20
)

// followSource reads the configuration again when the file has changed or a signal
// comes, until ctx ends.
func (n *Node) followSource(ctx context.Context) {
	s := n.settings.source
	if s.Load == nil {
		return
	}
	f := follower{seen: n.settings.seen}
	timer := time.NewTimer(lookPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Signals:
		case <-timer.C:
			read, pause := f.take(lookAt(s.File))
			timer.Reset(pause)
			if !read {
				continue
			}
		}
		_, _ = n.Reload() // which has logged what is wrong
	}
}

// follower tells when a file is to be read again.
type follower struct {
	seen  os.FileInfo // nil for no file
	looks int         // since the file changed and was not read; 0 if it was
}

// take takes how the file looks now. It returns whether it is to be read, and when to
// look again.
func (f *follower) take(now os.FileInfo) (read bool, pause time.Duration) {
	changed := !secure.SameVersion(now, f.seen)
	f.seen = now
	switch {
	case changed && f.looks < mostLooks:
		f.looks++
		return false, settlePause
	case f.looks > 0:
		f.looks = 0
		return true, lookPause
	}
	return false, lookPause
}

// lookAt looks at a file. One that is not there looks like none.
func lookAt(file string) os.FileInfo {
	if file == "" {
		return nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil // which reading it will report
	}
	return info
}
