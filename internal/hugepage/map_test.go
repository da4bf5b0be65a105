package hugepage

import (
	"reflect"
	"testing"
)

// Mapped memory is zeroed, writable and aligned, and has the requested length.
func TestMap(t *testing.T) {
	for _, n := range []int{1, 5000, Size, 3*Size + 5} {
		mem, free, err := Map(n)
		if err != nil {
			t.Fatal(err)
		}
		if at := reflect.ValueOf(mem).Pointer(); len(mem) != n || cap(mem) != n || at%Size != 0 {
			t.Errorf("%d bytes: %d at %#x, capacity %d", n, len(mem), at, cap(mem))
		}
		if mem[0] != 0 || mem[n-1] != 0 {
			t.Errorf("%d bytes are not zeroed", n)
		}
		mem[0], mem[n-1] = 1, 1
		if err := free(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := Map(1 << 50); err == nil {
		t.Error("more than an address space was mapped")
	}
}
