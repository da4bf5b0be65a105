package provider

// frame returns a frame, and allocates it when it is first used: most tests use a few of them.
func frame(frames [][]byte, id uint64, size int) []byte {
	if frames[id] == nil {
		frames[id] = make([]byte, size)
	}
	return frames[id]
}

// useAllFrames allocates all frames, for tests that measure memory.
func (p *pair) useAllFrames() {
	for _, l := range p.link {
		for id := range uint64(pipeFrames) {
			frame(l.txFrames, id, FrameSize)
			frame(l.rxFrames, id, l.rxSize)
		}
	}
}

// allocateFrames allocates the frames that are not used yet.
func (p *pipe) allocateFrames() {
	for id := range uint64(pipeFrames) {
		frame(p.rxFrames, id, p.rxSize)
		frame(p.txFrames, id, FrameSize)
	}
}
