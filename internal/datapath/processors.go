package datapath

import "golang.org/x/sys/unix"

// Processors returns the numbers of the processors that this process may run on, ascending.
func Processors() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	numbers := make([]int, 0, set.Count())
	for n := 0; len(numbers) < set.Count(); n++ {
		if set.IsSet(n) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
