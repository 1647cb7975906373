package xdsget

import "xdsrelay/relay/xdsclient"

// follow subscribes to what the resources refer to, and drops what they no longer refer to.
func (s *Session) follow() {
	s.followMu.Lock()
	defer s.followMu.Unlock()
	for {
		s.mu.Lock()
		if !s.dirty {
			s.mu.Unlock()
			return
		}
		changes := s.referencesLocked()
		s.signalLocked()
		s.mu.Unlock()
		for _, c := range changes {
			s.subscribe(c)
		}
	}
}

// change is a change of the followed names of a type.
type change struct {
	url       string
	add, drop []string
	gone      *Update // the resources that were dropped; nil for none
}

// referencesLocked computes the names to follow. s.mu is held.
func (s *Session) referencesLocked() (changes []change) {
	s.dirty = false
	if !s.cfg.References {
		return nil
	}
	wanted := make(map[string]map[string]bool)
	for _, t := range s.types {
		for _, e := range t.held {
			for _, r := range e.refs {
				if wanted[r.TypeURL] == nil {
					wanted[r.TypeURL] = make(map[string]bool)
				}
				wanted[r.TypeURL][r.Name] = true
			}
		}
	}
	for url := range wanted {
		s.typeLocked(url)
	}
	for _, url := range xdsclient.InPushOrder(keys(s.types)) {
		c, moved := s.types[url].followOnly(wanted[url])
		s.dirty = s.dirty || moved
		if len(c.add)+len(c.drop) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

// subscribe sends a change to the server. s.followMu is held.
func (s *Session) subscribe(c change) {
	st, err := s.streamOf(c.url)
	if err != nil {
		s.mu.Lock()
		s.typeLocked(c.url).problem = err.Error()
		s.signalLocked()
		s.mu.Unlock()
		return
	}
	if len(c.add) > 0 {
		st.client.Subscribe(c.url, c.add...)
	}
	if len(c.drop) > 0 {
		st.client.Unsubscribe(c.url, c.drop...)
	}
	if c.gone != nil {
		s.notify(Event{Update: c.gone})
	}
}
