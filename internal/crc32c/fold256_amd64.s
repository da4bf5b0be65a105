#include "go_asm.h"
#include "textflag.h"
#include "parts_amd64.h"

// func fold256(crc uint32, p *byte, n int, t *factors) uint32
// Three registers of 32 bytes (AVX2, VPCLMULQDQ).
TEXT ·fold256(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), DI
	CMPQ CX, $const_shortest
	JLT  short
	SPLIT96
	VMOVD   AX, X8
	VPXOR   (SI), Y8, Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VBROADCASTI128 factors_fold96(DI), Y15
	ADDQ    $factors_powers, DI
	TESTQ   R10, R10
	JZ      folded

loop:
	ADDQ       $96, SI
	VPCLMULQDQ $0x00, Y15, Y0, Y4
	VPCLMULQDQ $0x11, Y15, Y0, Y0
	STEP(0)
	VPXOR      (SI), Y4, Y4
	VPCLMULQDQ $0x00, Y15, Y1, Y5
	VPCLMULQDQ $0x11, Y15, Y1, Y1
	STEP(8)
	VPXOR      Y4, Y0, Y0
	VPXOR      32(SI), Y5, Y5
	VPCLMULQDQ $0x00, Y15, Y2, Y6
	VPCLMULQDQ $0x11, Y15, Y2, Y2
	STEP(16)
	VPXOR      Y5, Y1, Y1
	VPXOR      64(SI), Y6, Y6
	STEP(24)
	VPXOR      Y6, Y2, Y2
	STEP(32)
	ADDQ       $40, R8
	DECQ       R10
	JNZ        loop

folded:
	// Each of the twelve words times the power that takes it to the end of the streams.
	LEAQ       (R9)(R9*2), BX
	ADDQ       DI, BX
	VPERMQ     $0x1b, 64(BX), Y4
	VPERMQ     $0x1b, 32(BX), Y5
	VPERMQ     $0x1b, (BX), Y6
	VPCLMULQDQ $0x00, Y4, Y0, Y3
	VPCLMULQDQ $0x11, Y4, Y0, Y0
	VPCLMULQDQ $0x00, Y5, Y1, Y4
	VPCLMULQDQ $0x11, Y5, Y1, Y1
	VPCLMULQDQ $0x00, Y6, Y2, Y5
	VPCLMULQDQ $0x11, Y6, Y2, Y2
	VPXOR      Y3, Y0, Y0
	VPXOR      Y4, Y1, Y1
	VPXOR      Y5, Y2, Y2
	VPXOR      Y1, Y0, Y0
	VPXOR      Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPXOR      X1, X0, X0
	MERGE
	MOVL DX, ret+32(FP)
	VZEROUPPER
	RET

short:
	SHORT
	MOVL AX, ret+32(FP)
	RET
