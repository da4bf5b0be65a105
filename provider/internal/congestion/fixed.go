package congestion

// Fixed is a Control that keeps one window whatever happens.
type Fixed struct {
	Packets int // full ones
	Bytes   int // when Packets is zero
}

func (f *Fixed) start(s *State) {
	s.window = f.Bytes
	if f.Packets > 0 {
		s.window = f.Packets * s.packet
	}
}

func (f *Fixed) heard(s *State, _ *batch) { f.start(s) }
func (*Fixed) timedOut(*State)            {}
