package provider

// FramesHeld is how many of the link's transmit frames the engine keeps at hand between turns. Everything else was given back. The
// owner calls it.
func (e *Engine) FramesHeld() (transmit int) { return e.out.Frames() }

// Stats returns the counters. The owner calls it.
func (e *Engine) Stats() Stats {
	s, sent := e.stats, e.out.Counts()
	s.PacketsOut, s.BytesOut, s.NoFrames = sent.Packets, sent.Bytes, sent.NoFrames
	s.Limited = e.limitTotals.Micros(e.now)
	s.RequestsDone, s.RequestBytes = e.results.Done, e.results.Bytes
	return s
}

// Notifications returns how many NotifyDisconnect calls wait. The owner calls it.
func (k *Connector) Notifications() int { return k.notify.Len() }

// Waiting returns how many notifications wait.
func (s *SharedReceiveQueue) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low.Len()
}

// Aborted reports whether the peer gave up or withdrew, which the next call will tell. The owner calls it.
func (k *Connector) Aborted() bool { return k.aborted != OutcomeSuccess }

// Queued returns how many requests arrived that nobody took. The owner calls it.
func (l *Listener) Queued() int { return len(l.queue) }
