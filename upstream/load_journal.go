package upstream

import "log/slog"

// loadRefused notes that the server takes no load reports, which is said once,
// whatever the number of keys.
func (j *journal) loadRefused(err error) {
	j.mu.Lock()
	defer j.unlock()
	if !j.noLoad {
		j.noLoad = true
		j.sayLocked(slog.LevelInfo, "the "+j.what+" takes no load reports, asking again with backoff", errorAttr(err))
	}
}

// loadTaken notes that the server has asked for load reports.
func (j *journal) loadTaken() {
	j.mu.Lock()
	defer j.unlock()
	if j.noLoad {
		j.noLoad = false
		j.sayLocked(slog.LevelInfo, "the "+j.what+" takes load reports now")
	}
}

// loadFailed notes that a stream of load reports ended.
func (j *journal) loadFailed(err error) {
	j.mu.Lock()
	defer j.unlock()
	j.saySingleLocked(slog.LevelWarn, "a stream of load reports failed", errorAttr(err))
}
