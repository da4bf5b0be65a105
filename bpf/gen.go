package bpf

// One little-endian object serves amd64 and arm64. The asm headers that linux/types.h includes come from any multiarch directory that
// exists. The uapi structs used here have the same layout in each. bpf2go removes its own paths from the debug information, so the object
// does not depend on the directory of the source.
//
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -type nd_verdict -type nd_addr -go-package bpf -output-stem steer steer steer.bpf.c -- -O2 -g -Wall -Werror -mcpu=v2 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf -output-stem ring ring ring.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
