package impair

// One little-endian object serves amd64 and arm64, as in package bpf.
//
//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -type nd_fate -type nd_impairment -go-package impair -output-stem impair impair impair.bpf.c -- -O2 -g -Wall -Werror -mcpu=v2 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
