package standin

func publish(s *Server, args []string) any {
	if s.mute {
		return int64(0)
	}
	for c := range s.channels[args[0]] {
		c.answer([]any{"message", args[0], args[1]})
	}
	return int64(len(s.channels[args[0]]))
}

// subscribed returns to how many channels a connection is subscribed.
func (s *Server) subscribed(c *session) (n int64) {
	for _, all := range s.channels {
		if all[c] {
			n++
		}
	}
	return n
}

func (s *Server) subscribe(c *session, channels []string) {
	if len(channels) == 0 {
		c.answer(wrongNumber("SUBSCRIBE"))
	}
	for _, name := range channels {
		if s.channels[name] == nil {
			s.channels[name] = make(map[*session]bool)
		}
		s.channels[name][c] = true
		c.answer([]any{"subscribe", name, s.subscribed(c)})
	}
}

// unsubscribe ends the subscription of a connection to these channels, or to all.
func (s *Server) unsubscribe(c *session, channels []string) {
	if len(channels) == 0 {
		for name, all := range s.channels {
			if all[c] {
				channels = append(channels, name)
			}
		}
		if len(channels) == 0 {
			c.answer([]any{"unsubscribe", nil, int64(0)})
		}
	}
	for _, name := range channels {
		if delete(s.channels[name], c); len(s.channels[name]) == 0 {
			delete(s.channels, name)
		}
		c.answer([]any{"unsubscribe", name, s.subscribed(c)})
	}
}
