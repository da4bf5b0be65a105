package provider

// FramesHeld returns the number of transmit frames of the link that the engine caches between polls. The engine's owner calls it.
func (e *Engine) FramesHeld() (transmit int) { return e.out.Frames() }

// Stats returns the counters. The engine's owner calls it.
func (e *Engine) Stats() Stats {
	s, sent := e.stats, e.out.Counts()
	s.PacketsOut, s.BytesOut, s.NoFrames = sent.Packets, sent.Bytes, sent.NoFrames
	s.Limited = e.limitTotals.Micros(e.now)
	s.RequestsDone, s.RequestBytes = e.results.Done, e.results.Bytes
	return s
}

// Notifications returns the number of pending NotifyDisconnect calls. The engine's owner calls it.
func (k *Connector) Notifications() int { return k.notify.Len() }

// Waiting returns the number of pending notifications.
func (s *SharedReceiveQueue) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low.Len()
}

// Aborted reports whether the peer gave up or withdrew; the next call returns it. The engine's owner calls it.
func (k *Connector) Aborted() bool { return k.aborted != OutcomeSuccess }

// Queued returns the number of requests that were not fetched. The engine's owner calls it.
func (l *Listener) Queued() int { return len(l.queue) }
