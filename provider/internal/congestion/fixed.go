package congestion

// Fixed is a Control with a constant window.
type Fixed struct {
	Packets int // window in full packets
	Bytes   int // window if Packets is zero
}

func (f *Fixed) start(s *State) {
	s.window = f.Bytes
	if f.Packets > 0 {
		s.window = f.Packets * s.packet
	}
}

func (f *Fixed) heard(s *State, _ *batch) { f.start(s) }
func (*Fixed) timedOut(*State)            {}
