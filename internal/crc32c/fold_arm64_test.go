package crc32c

// foldings returns the way of this architecture, as far as the processor has it.
func foldings() map[string]func(uint32, []byte) uint32 {
	if !folds {
		return nil
	}
	return map[string]func(uint32, []byte) uint32{"foldPMULL": with(foldPMULL)}
}
