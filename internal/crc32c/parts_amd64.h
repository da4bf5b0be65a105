// What both ways to fold have in common. Registers:
//   SI  next bytes of the folded part      R8        next bytes of the first stream
//   CX  bytes, then steps left             R9        length of a stream in bytes
//   DI  table of powers                    R10       folds left
//   AX  checksum of the bytes in front     R11       steps of the streams
//   R12, R13, R14  checksums of the three streams

// STEP adds eight bytes to each stream.
#define STEP(off) \
	CRC32Q off(R8), R12         \
	CRC32Q off(R8)(R9*1), R13   \
	CRC32Q off(R8)(R9*2), R14

// SHORT sums up to shortest-1 bytes into AX.
#define SHORT \
	SUBQ   $8, CX      \
	JLT    tail        \
quads:                     \
	CRC32Q (SI), AX    \
	ADDQ   $8, SI      \
	SUBQ   $8, CX      \
	JGE    quads       \
tail:                      \
	BTQ    $2, CX      \
	JCC    tail2       \
	CRC32L (SI), AX    \
	ADDQ   $4, SI      \
tail2:                     \
	BTQ    $1, CX      \
	JCC    tail1       \
	CRC32W (SI), AX    \
	ADDQ   $2, SI      \
tail1:                     \
	BTQ    $0, CX      \
	JCC    last        \
	CRC32B (SI), AX    \
last:

// SPLIT divides CX bytes into up to 23 in front, which it sums, a part to fold of folds+1 times 3<<log bytes, and three streams of
// equal length. Folds are (CX-least)*inverse/2^22. The caller sets CX to the steps of the streams behind the last fold.
#define SPLIT(least, inverse, log) \
	XORQ   R10, R10       \
	MOVQ   CX, DX         \
	SUBQ   $least, DX     \
	JLT    split          \
	IMUL3Q $inverse, DX, R10 \
	SHRQ   $22, R10       \
split:                        \
	LEAQ   3(R10)(R10*2), R8 \
	SHLQ   $log, R8       \ // bytes to fold
	SUBQ   R8, CX         \
	IMUL3Q $43691, CX, R11 \
	SHRQ   $20, R11       \ // steps = rest / 24
	LEAQ   (R11)(R11*2), BX \
	SHLQ   $3, BX         \
	SUBQ   BX, CX         \ // bytes in front
	LEAQ   (R11*8), R9    \
	BTQ    $4, CX         \
	JCC    front8         \
	CRC32Q (SI), AX       \
	CRC32Q 8(SI), AX      \
	ADDQ   $16, SI        \
front8:                       \
	BTQ    $3, CX         \
	JCC    front4         \
	CRC32Q (SI), AX       \
	ADDQ   $8, SI         \
front4:                       \
	BTQ    $2, CX         \
	JCC    front2         \
	CRC32L (SI), AX       \
	ADDQ   $4, SI         \
front2:                       \
	BTQ    $1, CX         \
	JCC    front1         \
	CRC32W (SI), AX       \
	ADDQ   $2, SI         \
front1:                       \
	BTQ    $0, CX         \
	JCC    front0         \
	CRC32B (SI), AX       \
	ADDQ   $1, SI         \
front0:                       \
	ADDQ   SI, R8         \
	XORQ   R12, R12       \
	XORQ   R13, R13       \
	XORQ   R14, R14       \
	MOVQ   R11, CX

// SPLIT96 splits for folds of 96 bytes, (n-192)/216 of them. A fold goes with five steps of the streams: both then take the same time
// where a processor does one CRC32Q in a cycle and folds 32 bytes in four to five. At least four steps follow the last fold, while its
// result is on its way.
#define SPLIT96 \
	SPLIT(192, 19419, 5) \
	LEAQ   (R10)(R10*4), DX \
	SUBQ   DX, CX

// SPLIT192 splits for folds of 192 bytes, (n-216)/288 of them. A fold goes with four steps: a processor that folds 16 bytes in a cycle does
// twelve CRC32Q meanwhile. At least one step follows the last fold.
#define SPLIT192 \
	SPLIT(216, 14564, 6) \
	LEAQ   (R10*4), DX \
	SUBQ   DX, CX

// MERGE adds the streams to the folded part in X0, which already stands behind them, and leaves the checksum in DX.
#define MERGE \
	VMOVQ  -8(DI)(R9*1), X6 \
	LEAQ   -8(DI)(R9*2), BX \
	VMOVQ  (BX), X5         \
rest:                           \
	STEP(0)                 \
	ADDQ   $8, R8           \
	DECQ   CX               \
	JNZ    rest             \
	VMOVQ  R12, X2          \
	VMOVQ  R13, X3          \
	VPCLMULQDQ $0x00, X5, X2, X2 \
	VPCLMULQDQ $0x00, X6, X3, X3 \
	VPXOR  X2, X0, X0       \
	VPXOR  X3, X0, X0       \
	VMOVQ  X0, AX           \
	VPEXTRQ $1, X0, BX      \
	XORQ   DX, DX           \
	CRC32Q AX, DX           \
	CRC32Q BX, DX           \
	XORL   R14, DX
