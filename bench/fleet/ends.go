package fleet

import "sync"

// End is how often connections or streams ended in a way, or could not be made.
type End struct {
	Count int64  `json:"count"`
	First string `json:"first"`
}

// ends counts ends by their kind: "dial" and "connection" for connections,
// "stream" for streams that broke, and the status where the server gave one.
type ends struct {
	mu    sync.Mutex
	kinds map[string]*End // guarded by mu
}

func (e *ends) add(kind, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kinds == nil {
		e.kinds = make(map[string]*End)
	}
	if e.kinds[kind] == nil {
		e.kinds[kind] = &End{First: text}
	}
	e.kinds[kind].Count++
}

func (e *ends) snapshot() map[string]End {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]End, len(e.kinds))
	for k, n := range e.kinds {
		out[k] = *n
	}
	return out
}
