package cli

import (
	"strconv"
	"strings"
)

// Sizes parses a flag with sizes: bytes with the binary suffixes K, M and G, with or without iB, and doubling ranges like 64-64K.
// All sizes must be between least and most; limits describes these bounds in errors.
func Sizes(flag string, texts []string, least, most int, limits string) (sizes []int, err error) {
	for _, text := range texts {
		from, to, sweep := strings.Cut(text, "-")
		if !sweep {
			to = from
		}
		first, ok := size(from, least, most)
		last, alsoOK := size(to, least, most)
		if !ok || !alsoOK {
			return nil, Usagef("--%s: %q is not a size from %s (examples: 64, 4K, 1M, 64-64K)", flag, text, limits)
		}
		if last < first {
			return nil, Usagef("--%s: %q goes down", flag, text)
		}
		for n := first; n <= last; n *= 2 {
			sizes = append(sizes, n)
		}
	}
	return sizes, nil
}

// size parses one size.
func size(text string, least, most int) (n int, ok bool) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	digits := strings.TrimRight(upper, "KMGIB")
	shift := map[string]uint{"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20, "G": 30, "GB": 30, "GIB": 30}
	bits, known := shift[upper[len(digits):]]
	n, err := strconv.Atoi(digits)
	if !known || err != nil || n > most>>bits || n < 0 || n<<bits < least {
		return 0, false
	}
	return n << bits, true
}
