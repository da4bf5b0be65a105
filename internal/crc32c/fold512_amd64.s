#include "go_asm.h"
#include "textflag.h"
#include "parts_amd64.h"

// The numbers of a register's words, the last one first.
DATA backwards<>+0(SB)/8, $7
DATA backwards<>+8(SB)/8, $6
DATA backwards<>+16(SB)/8, $5
DATA backwards<>+24(SB)/8, $4
DATA backwards<>+32(SB)/8, $3
DATA backwards<>+40(SB)/8, $2
DATA backwards<>+48(SB)/8, $1
DATA backwards<>+56(SB)/8, $0
GLOBL backwards<>(SB), RODATA|NOPTR, $64

// func fold512(crc uint32, p *byte, n int, t *factors) uint32
// Three registers of 64 bytes (AVX-512, VPCLMULQDQ). n is at least shortest512.
TEXT ·fold512(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), DI
	SPLIT192
	VMOVD   AX, X8
	VPXORQ  (SI), Z8, Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VBROADCASTI32X4 factors_fold192(DI), Z15
	ADDQ    $factors_powers, DI
	TESTQ   R10, R10
	JZ      folded

loop:
	ADDQ       $192, SI
	VPCLMULQDQ $0x00, Z15, Z0, Z4
	VPCLMULQDQ $0x11, Z15, Z0, Z0
	STEP(0)
	VPCLMULQDQ $0x00, Z15, Z1, Z5
	VPCLMULQDQ $0x11, Z15, Z1, Z1
	STEP(8)
	VPTERNLOGQ $0x96, (SI), Z4, Z0
	VPCLMULQDQ $0x00, Z15, Z2, Z6
	VPCLMULQDQ $0x11, Z15, Z2, Z2
	STEP(16)
	VPTERNLOGQ $0x96, 64(SI), Z5, Z1
	STEP(24)
	VPTERNLOGQ $0x96, 128(SI), Z6, Z2
	ADDQ       $32, R8
	DECQ       R10
	JNZ        loop

folded:
	// Each of the 24 words times the power that takes it to the end of the streams.
	LEAQ       (R9)(R9*2), BX
	ADDQ       DI, BX
	VMOVDQU64  backwards<>(SB), Z7
	VPERMQ     128(BX), Z7, Z4
	VPERMQ     64(BX), Z7, Z5
	VPERMQ     (BX), Z7, Z6
	VPCLMULQDQ $0x00, Z4, Z0, Z3
	VPCLMULQDQ $0x11, Z4, Z0, Z0
	VPCLMULQDQ $0x00, Z5, Z1, Z4
	VPCLMULQDQ $0x11, Z5, Z1, Z1
	VPCLMULQDQ $0x00, Z6, Z2, Z5
	VPCLMULQDQ $0x11, Z6, Z2, Z2
	VPTERNLOGQ $0x96, Z3, Z1, Z0
	VPTERNLOGQ $0x96, Z4, Z5, Z2
	VPXORQ     Z2, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPXOR      Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPXOR      X1, X0, X0
	MERGE
	MOVL DX, ret+32(FP)
	VZEROUPPER
	RET
