#include "go_asm.h"
#include "textflag.h"

// Registers:
//   R1   next bytes of the folded part   R13, R14, R15  next bytes of the three streams
//   R2   bytes, then bytes in front      R19, R20, R21  their checksums
//   R3   table of factors                R10            length of a stream in bytes
//   R0   checksum of the bytes in front  R6             folds left
//   R22  steps of the streams behind the last fold

// STEP adds eight bytes to each stream.
#define STEP \
	MOVD.P  8(R13), R11  \
	MOVD.P  8(R14), R12  \
	MOVD.P  8(R15), R23  \
	CRC32CX R11, R19     \
	CRC32CX R12, R20     \
	CRC32CX R23, R21

// FOLD moves a register by 96 bytes, and adds what is there.
#define FOLD(reg, low, next) \
	VPMULL  V31.D1, reg.D1, low.Q1      \
	VPMULL2 V31.D2, reg.D2, reg.Q1      \
	VEOR    next.B16, low.B16, low.B16  \
	VEOR    low.B16, reg.B16, reg.B16

// BEHIND moves the two words of a register to the end of the streams. The factor of the second one stands first.
#define BEHIND(reg, factor, low) \
	VEXT    $8, factor.B16, factor.B16, factor.B16 \
	VPMULL  factor.D1, reg.D1, low.Q1   \
	VPMULL2 factor.D2, reg.D2, reg.Q1   \
	VEOR    low.B16, reg.B16, reg.B16

// func foldPMULL(crc uint32, p *byte, n int, t *factors) uint32
// Six registers of 16 bytes.
TEXT ·foldPMULL(SB), NOSPLIT, $0-36
	MOVWU crc+0(FP), R0
	MOVD  p+8(FP), R1
	MOVD  n+16(FP), R2
	MOVD  t+24(FP), R3
	CMP   $const_shortest, R2
	BLT   short

	// Up to 23 bytes in front, a part of 96*(folds+1) bytes to fold, and three streams of equal length; five steps of the streams go
	// with a fold, as on amd64.
	SUB  $192, R2, R4
	MOVD $19419, R5
	MUL  R5, R4, R6
	LSR  $22, R6, R6       // folds = (n-192) / 216
	ADD  R6<<1, R6, R7
	ADD  $3, R7, R7
	LSL  $5, R7, R7        // bytes to fold
	SUB  R7, R2, R2
	MOVD $43691, R5
	MUL  R5, R2, R8
	LSR  $20, R8, R8       // steps = rest / 24
	ADD  R8<<1, R8, R9
	LSL  $3, R9, R9
	SUB  R9, R2, R2        // bytes in front
	LSL  $3, R8, R10
	TBZ  $4, R2, front8
	MOVD.P  8(R1), R11
	CRC32CX R11, R0
	MOVD.P  8(R1), R11
	CRC32CX R11, R0

front8:
	TBZ     $3, R2, front4
	MOVD.P  8(R1), R11
	CRC32CX R11, R0

front4:
	TBZ     $2, R2, front2
	MOVWU.P 4(R1), R11
	CRC32CW R11, R0

front2:
	TBZ     $1, R2, front1
	MOVHU.P 2(R1), R11
	CRC32CH R11, R0

front1:
	TBZ     $0, R2, front0
	MOVBU.P 1(R1), R11
	CRC32CB R11, R0

front0:
	ADD  R7, R1, R13
	ADD  R10, R13, R14
	ADD  R10, R14, R15
	MOVD ZR, R19
	MOVD ZR, R20
	MOVD ZR, R21
	ADD  R6<<2, R6, R22
	SUB  R22, R8, R22
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 32(R1), [V4.B16, V5.B16]
	FMOVD  R0, F8
	VEOR   V8.B16, V0.B16, V0.B16
	ADD    $factors_fold96, R3, R11
	VLD1   (R11), [V31.B16]
	ADD    $factors_powers, R3, R3
	CBZ    R6, folded

loop:
	VLD1.P 64(R1), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P 32(R1), [V20.B16, V21.B16]
	FOLD(V0, V8, V16)
	STEP
	FOLD(V1, V9, V17)
	STEP
	FOLD(V2, V10, V18)
	STEP
	FOLD(V3, V11, V19)
	STEP
	FOLD(V4, V12, V20)
	STEP
	FOLD(V5, V13, V21)
	SUB  $1, R6, R6
	CBNZ R6, loop

folded:
	// Each of the twelve words times the power that takes it to the end of the streams.
	ADD    R10<<1, R10, R11
	ADD    R3, R11, R11
	VLD1.P 64(R11), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1   (R11), [V20.B16, V21.B16]
	BEHIND(V0, V21, V8)
	BEHIND(V1, V20, V9)
	BEHIND(V2, V19, V10)
	BEHIND(V3, V18, V11)
	BEHIND(V4, V17, V12)
	BEHIND(V5, V16, V13)
	VEOR   V1.B16, V0.B16, V0.B16
	VEOR   V3.B16, V2.B16, V2.B16
	VEOR   V5.B16, V4.B16, V4.B16
	VEOR   V2.B16, V0.B16, V0.B16
	VEOR   V4.B16, V0.B16, V0.B16

rest:
	STEP
	SUB  $1, R22, R22
	CBNZ R22, rest

	// The first two streams as well.
	ADD    R3, R10, R11
	FMOVD  -8(R11), F6
	ADD    R10, R11, R11
	FMOVD  -8(R11), F7
	FMOVD  R19, F8
	FMOVD  R20, F9
	VPMULL V7.D1, V8.D1, V8.Q1
	VPMULL V6.D1, V9.D1, V9.Q1
	VEOR   V8.B16, V0.B16, V0.B16
	VEOR   V9.B16, V0.B16, V0.B16
	VMOV   V0.D[0], R11
	VMOV   V0.D[1], R12
	MOVD   ZR, R0
	CRC32CX R11, R0
	CRC32CX R12, R0
	EOR    R21, R0, R0
	MOVW   R0, ret+32(FP)
	RET

short:
	SUBS $8, R2, R2
	BLT  tail

quads:
	MOVD.P  8(R1), R11
	CRC32CX R11, R0
	SUBS    $8, R2, R2
	BGE     quads

tail:
	TBZ     $2, R2, tail2
	MOVWU.P 4(R1), R11
	CRC32CW R11, R0

tail2:
	TBZ     $1, R2, tail1
	MOVHU.P 2(R1), R11
	CRC32CH R11, R0

tail1:
	TBZ     $0, R2, last
	MOVBU.P 1(R1), R11
	CRC32CB R11, R0

last:
	MOVW R0, ret+32(FP)
	RET
