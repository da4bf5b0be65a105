package crc32c

// foldings returns the implementation of this architecture, if the processor supports it.
func foldings() map[string]func(uint32, []byte) uint32 {
	if !folds {
		return nil
	}
	return map[string]func(uint32, []byte) uint32{"foldPMULL": with(foldPMULL)}
}
