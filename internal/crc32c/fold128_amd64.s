#include "go_asm.h"
#include "textflag.h"
#include "parts_amd64.h"

// func fold128(crc uint32, p *byte, n int, t *factors) uint32
// Six registers of 16 bytes (AVX, PCLMULQDQ).
TEXT ·fold128(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), DI
	CMPQ CX, $const_shortest
	JLT  short
	SPLIT96
	VMOVD   AX, X8
	VPXOR   (SI), X8, X0
	VMOVDQU 16(SI), X1
	VMOVDQU 32(SI), X2
	VMOVDQU 48(SI), X3
	VMOVDQU 64(SI), X4
	VMOVDQU 80(SI), X5
	VMOVDQU factors_fold96(DI), X15
	ADDQ    $factors_powers, DI
	TESTQ   R10, R10
	JZ      folded

loop:
	ADDQ       $96, SI
	VPCLMULQDQ $0x00, X15, X0, X8
	VPCLMULQDQ $0x11, X15, X0, X0
	VPCLMULQDQ $0x00, X15, X1, X9
	VPCLMULQDQ $0x11, X15, X1, X1
	STEP(0)
	VPXOR      (SI), X8, X8
	VPXOR      16(SI), X9, X9
	VPCLMULQDQ $0x00, X15, X2, X10
	VPCLMULQDQ $0x11, X15, X2, X2
	STEP(8)
	VPXOR      X8, X0, X0
	VPXOR      X9, X1, X1
	VPCLMULQDQ $0x00, X15, X3, X11
	VPCLMULQDQ $0x11, X15, X3, X3
	STEP(16)
	VPXOR      32(SI), X10, X10
	VPXOR      48(SI), X11, X11
	VPCLMULQDQ $0x00, X15, X4, X12
	VPCLMULQDQ $0x11, X15, X4, X4
	STEP(24)
	VPXOR      X10, X2, X2
	VPXOR      X11, X3, X3
	VPCLMULQDQ $0x00, X15, X5, X13
	VPCLMULQDQ $0x11, X15, X5, X5
	STEP(32)
	VPXOR      64(SI), X12, X12
	VPXOR      80(SI), X13, X13
	VPXOR      X12, X4, X4
	VPXOR      X13, X5, X5
	ADDQ       $40, R8
	DECQ       R10
	JNZ        loop

#define BEHIND(off, reg) \
	VMOVDQU    off(BX), X15          \
	VPCLMULQDQ $0x10, X15, reg, X8   \
	VPCLMULQDQ $0x01, X15, reg, X9   \
	VPXOR      X8, X9, reg

folded:
	// Each of the twelve words times the power that takes it to the end of the streams.
	LEAQ (R9)(R9*2), BX
	ADDQ DI, BX
	BEHIND(80, X0)
	BEHIND(64, X1)
	BEHIND(48, X2)
	BEHIND(32, X3)
	BEHIND(16, X4)
	BEHIND(0, X5)
	VPXOR X1, X0, X0
	VPXOR X3, X2, X2
	VPXOR X5, X4, X4
	VPXOR X2, X0, X0
	VPXOR X4, X0, X0
	MERGE
	MOVL DX, ret+32(FP)
	RET

short:
	SHORT
	MOVL AX, ret+32(FP)
	RET
