package upstream

import "log/slog"

// loadRefused logs that the server supports no load reports, once for all keys.
func (j *journal) loadRefused(err error) {
	j.mu.Lock()
	defer j.unlock()
	if !j.noLoad {
		j.noLoad = true
		j.logLocked(slog.LevelInfo, "the "+j.what+" accepts no load reports; retrying with backoff", errorAttr(err))
	}
}

// loadRequested records that the server has requested load reports.
func (j *journal) loadRequested() {
	j.mu.Lock()
	defer j.unlock()
	if j.noLoad {
		j.noLoad = false
		j.logLocked(slog.LevelInfo, "the "+j.what+" accepts load reports now")
	}
}

// loadFailed logs that a stream of load reports ended.
func (j *journal) loadFailed(err error) {
	j.mu.Lock()
	defer j.unlock()
	j.logSingleLocked(slog.LevelWarn, "a stream of load reports failed", errorAttr(err))
}
