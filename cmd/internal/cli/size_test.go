package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string][]int{
		"64": {64}, "8,4K,1m": {8, 4096, 1 << 20}, "64-300": {64, 128, 256}, "1K-4K": {1024, 2048, 4096}, "64B,4KiB, 1mib": {64, 4096, 1 << 20},
		"8,1K-2K": {8, 1024, 2048}, "1M-1M": {1 << 20},
		"7": nil, "2M": nil, "x": nil, "": nil, "4K-64": nil, "64-": nil, "-64": nil, "M": nil, "12Q": nil, "1G": nil,
	} {
		got, err := Sizes("size", strings.Split(text, ","), 8, 1<<20, "8 to 1M")
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
