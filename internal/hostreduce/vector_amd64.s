#include "textflag.h"

// The frame of all vector kernels. Each is a Go function
//
//	func(dst *byte, srcs *[]byte, nsrc, n int, scale uint64)
//
// that reduces nsrc >= 1 sources of n bytes into dst, one block at a time. A block is read from all sources before it
// is written, so dst may be a source. n is a multiple of the kernel's last, smallest block.
//
//	DI dst   SI first slice header (24 bytes apart, the pointer first)   CX nsrc   BX offset of the block   DX bytes left
//	R9 current slice header   R10 sources left   R8 address in the source

// PROLOGUE sets the flags of DX - blockBytes: JLT to the small blocks when no whole large one is left.
#define PROLOGUE(blockBytes) \
	MOVQ dst+0(FP), DI; \
	MOVQ srcs+8(FP), SI; \
	MOVQ nsrc+16(FP), CX; \
	MOVQ n+24(FP), DX; \
	XORQ BX, BX; \
	CMPQ DX, $blockBytes

// FIRST points R8 at the first source's part of the block and starts the iteration over the others; NEXT moves to the
// next.
#define FIRST \
	MOVQ (SI), R8; \
	ADDQ BX, R8; \
	LEAQ 24(SI), R9; \
	MOVQ CX, R10

#define NEXT \
	MOVQ (R9), R8; \
	ADDQ BX, R8; \
	ADDQ $24, R9

// ADVANCE moves past a block; JGE jumps to another one of this size.
#define ADVANCE(blockBytes) \
	ADDQ $blockBytes, BX; \
	SUBQ $blockBytes, DX; \
	CMPQ DX, $blockBytes

// Kernels whose operator is one instruction with a source operand in memory. A block is 256 bytes in Y0 … Y7; the rest
// is processed in blocks of 32 bytes in Y0.

#define LOAD256 \
	VMOVDQU (R8), Y0; \
	VMOVDQU 32(R8), Y1; \
	VMOVDQU 64(R8), Y2; \
	VMOVDQU 96(R8), Y3; \
	VMOVDQU 128(R8), Y4; \
	VMOVDQU 160(R8), Y5; \
	VMOVDQU 192(R8), Y6; \
	VMOVDQU 224(R8), Y7

#define FOLD256(OP) \
	OP (R8), Y0, Y0; \
	OP 32(R8), Y1, Y1; \
	OP 64(R8), Y2, Y2; \
	OP 96(R8), Y3, Y3; \
	OP 128(R8), Y4, Y4; \
	OP 160(R8), Y5, Y5; \
	OP 192(R8), Y6, Y6; \
	OP 224(R8), Y7, Y7

#define SCALE256(MUL) \
	MUL Y15, Y0, Y0; \
	MUL Y15, Y1, Y1; \
	MUL Y15, Y2, Y2; \
	MUL Y15, Y3, Y3; \
	MUL Y15, Y4, Y4; \
	MUL Y15, Y5, Y5; \
	MUL Y15, Y6, Y6; \
	MUL Y15, Y7, Y7

#define STORE256 \
	LEAQ (DI)(BX*1), R8; \
	VMOVDQU Y0, (R8); \
	VMOVDQU Y1, 32(R8); \
	VMOVDQU Y2, 64(R8); \
	VMOVDQU Y3, 96(R8); \
	VMOVDQU Y4, 128(R8); \
	VMOVDQU Y5, 160(R8); \
	VMOVDQU Y6, 192(R8); \
	VMOVDQU Y7, 224(R8)

#define DIRECT(name, OP) \
TEXT name(SB), NOSPLIT, $0-40; \
	PROLOGUE(256); \
	JLT  rest; \
block: \
	FIRST; \
	LOAD256; \
	JMP  test; \
source: \
	NEXT; \
	FOLD256(OP); \
test: \
	DECQ R10; \
	JNZ  source; \
	STORE256; \
	ADVANCE(256); \
	JGE  block; \
rest: \
	TESTQ DX, DX; \
	JZ   done; \
	FIRST; \
	VMOVDQU (R8), Y0; \
	JMP  testrest; \
sourcerest: \
	NEXT; \
	OP (R8), Y0, Y0; \
testrest: \
	DECQ R10; \
	JNZ  sourcerest; \
	VMOVDQU Y0, (DI)(BX*1); \
	ADVANCE(32); \
	JMP  rest; \
done: \
	VZEROUPPER; \
	RET

// The result is multiplied by scale before it is stored.
#define SCALED(name, OP, BROADCAST, MUL) \
TEXT name(SB), NOSPLIT, $0-40; \
	BROADCAST scale+32(FP), Y15; \
	PROLOGUE(256); \
	JLT  rest; \
block: \
	FIRST; \
	LOAD256; \
	JMP  test; \
source: \
	NEXT; \
	FOLD256(OP); \
test: \
	DECQ R10; \
	JNZ  source; \
	SCALE256(MUL); \
	STORE256; \
	ADVANCE(256); \
	JGE  block; \
rest: \
	TESTQ DX, DX; \
	JZ   done; \
	FIRST; \
	VMOVDQU (R8), Y0; \
	JMP  testrest; \
sourcerest: \
	NEXT; \
	OP (R8), Y0, Y0; \
testrest: \
	DECQ R10; \
	JNZ  sourcerest; \
	MUL  Y15, Y0, Y0; \
	VMOVDQU Y0, (DI)(BX*1); \
	ADVANCE(32); \
	JMP  rest; \
done: \
	VZEROUPPER; \
	RET

// Each source is multiplied by scale before it is added.
#define PRESTEP(off, acc, MUL, ADD) \
	MUL off(R8), Y15, Y8; \
	ADD Y8, acc, acc

#define PRESCALED(name, ADD, BROADCAST, MUL) \
TEXT name(SB), NOSPLIT, $0-40; \
	BROADCAST scale+32(FP), Y15; \
	PROLOGUE(256); \
	JLT  rest; \
block: \
	FIRST; \
	LOAD256; \
	SCALE256(MUL); \
	JMP  test; \
source: \
	NEXT; \
	PRESTEP(0, Y0, MUL, ADD); \
	PRESTEP(32, Y1, MUL, ADD); \
	PRESTEP(64, Y2, MUL, ADD); \
	PRESTEP(96, Y3, MUL, ADD); \
	PRESTEP(128, Y4, MUL, ADD); \
	PRESTEP(160, Y5, MUL, ADD); \
	PRESTEP(192, Y6, MUL, ADD); \
	PRESTEP(224, Y7, MUL, ADD); \
test: \
	DECQ R10; \
	JNZ  source; \
	STORE256; \
	ADVANCE(256); \
	JGE  block; \
rest: \
	TESTQ DX, DX; \
	JZ   done; \
	FIRST; \
	VMOVDQU (R8), Y0; \
	MUL  Y15, Y0, Y0; \
	JMP  testrest; \
sourcerest: \
	NEXT; \
	PRESTEP(0, Y0, MUL, ADD); \
testrest: \
	DECQ R10; \
	JNZ  sourcerest; \
	VMOVDQU Y0, (DI)(BX*1); \
	ADVANCE(32); \
	JMP  rest; \
done: \
	VZEROUPPER; \
	RET

SCALED(·sumFloat32, VADDPS, VBROADCASTSS, VMULPS)
SCALED(·sumFloat64, VADDPD, VBROADCASTSD, VMULPD)
PRESCALED(·preMulSumFloat32, VADDPS, VBROADCASTSS, VMULPS)
PRESCALED(·preMulSumFloat64, VADDPD, VBROADCASTSD, VMULPD)
DIRECT(·sumInt8, VPADDB)
DIRECT(·sumInt32, VPADDD)
DIRECT(·sumInt64, VPADDQ)

// 16-bit floats, computed in float32. A block is 32 elements in Y0 … Y3; a source's are decoded to Y4 … Y7.
// The rest is processed in blocks of 8 elements in Y0, the source's in Y4.

DATA one32<>+0(SB)/8, $0x0000000100000001
DATA one32<>+8(SB)/8, $0x0000000100000001
DATA one32<>+16(SB)/8, $0x0000000100000001
DATA one32<>+24(SB)/8, $0x0000000100000001
GLOBL one32<>(SB), RODATA|NOPTR, $32
DATA bias16<>+0(SB)/8, $0x00007fff00007fff
DATA bias16<>+8(SB)/8, $0x00007fff00007fff
DATA bias16<>+16(SB)/8, $0x00007fff00007fff
DATA bias16<>+24(SB)/8, $0x00007fff00007fff
GLOBL bias16<>(SB), RODATA|NOPTR, $32
DATA quietBF16<>+0(SB)/8, $0x0000004000000040
DATA quietBF16<>+8(SB)/8, $0x0000004000000040
DATA quietBF16<>+16(SB)/8, $0x0000004000000040
DATA quietBF16<>+24(SB)/8, $0x0000004000000040
GLOBL quietBF16<>(SB), RODATA|NOPTR, $32

// DECODE converts 8 elements at mem to y, whose lower half is x. ENCODE converts y to 8 elements at mem. Both may use
// Y8 … Y14.

#define DECODEBF16(mem, x, y) \
	VPMOVZXWD mem, y; \
	VPSLLD    $16, y, y

// Add half of the last place, less one when the last place is even; a NaN is truncated and made quiet instead.
#define ENCODEBF16(mem, x, y) \
	VPSRLD       $16, y, Y8; \
	VPAND        one32<>(SB), Y8, Y9; \
	VPADDD       bias16<>(SB), Y9, Y9; \
	VPADDD       y, Y9, Y9; \
	VPSRLD       $16, Y9, Y9; \
	VCMPPS       $3, y, y, Y10; \
	VPOR         quietBF16<>(SB), Y8, Y8; \
	VBLENDVPS    Y10, Y8, Y9, Y8; \
	VEXTRACTI128 $1, Y8, X9; \
	VPACKUSDW    X9, X8, X8; \
	VMOVDQU      X8, mem

#define DECODEFP16(mem, x, y) \
	VCVTPH2PS mem, y

#define ENCODEFP16(mem, x, y) \
	VCVTPS2PH $0, y, mem

#define ADD(src, acc) VADDPS src, acc, acc

#define MULADD(src, acc) \
	VMULPS Y15, src, src; \
	VADDPS src, acc, acc

#define SCALE \
	VMULPS Y15, Y0, Y0; \
	VMULPS Y15, Y1, Y1; \
	VMULPS Y15, Y2, Y2; \
	VMULPS Y15, Y3, Y3

#define NOTHING

#define SMALL(name, DECODE, ENCODE, AFTERFIRST, OP, ATLAST, o1, o2, o3, blockBytes) \
TEXT name(SB), NOSPLIT, $0-40; \
	VBROADCASTSS scale+32(FP), Y15; \
	PROLOGUE(blockBytes); \
	JLT  rest; \
block: \
	FIRST; \
	DECODE(0(R8), X0, Y0); \
	DECODE(o1(R8), X1, Y1); \
	DECODE(o2(R8), X2, Y2); \
	DECODE(o3(R8), X3, Y3); \
	AFTERFIRST; \
	JMP  test; \
source: \
	NEXT; \
	DECODE(0(R8), X4, Y4); \
	DECODE(o1(R8), X5, Y5); \
	DECODE(o2(R8), X6, Y6); \
	DECODE(o3(R8), X7, Y7); \
	OP(Y4, Y0); \
	OP(Y5, Y1); \
	OP(Y6, Y2); \
	OP(Y7, Y3); \
test: \
	DECQ R10; \
	JNZ  source; \
	ATLAST; \
	LEAQ (DI)(BX*1), R8; \
	ENCODE(0(R8), X0, Y0); \
	ENCODE(o1(R8), X1, Y1); \
	ENCODE(o2(R8), X2, Y2); \
	ENCODE(o3(R8), X3, Y3); \
	ADVANCE(blockBytes); \
	JGE  block; \
rest: \
	TESTQ DX, DX; \
	JZ   done; \
	FIRST; \
	DECODE(0(R8), X0, Y0); \
	AFTERFIRST; \
	JMP  testrest; \
sourcerest: \
	NEXT; \
	DECODE(0(R8), X4, Y4); \
	OP(Y4, Y0); \
testrest: \
	DECQ R10; \
	JNZ  sourcerest; \
	ATLAST; \
	LEAQ (DI)(BX*1), R8; \
	ENCODE(0(R8), X0, Y0); \
	ADVANCE(o1); \
	JMP  rest; \
done: \
	VZEROUPPER; \
	RET

SMALL(·sumBfloat16, DECODEBF16, ENCODEBF16, NOTHING, ADD, SCALE, 16, 32, 48, 64)
SMALL(·preMulSumBfloat16, DECODEBF16, ENCODEBF16, SCALE, MULADD, NOTHING, 16, 32, 48, 64)

SMALL(·sumFloat16, DECODEFP16, ENCODEFP16, NOTHING, ADD, SCALE, 16, 32, 48, 64)
SMALL(·preMulSumFloat16, DECODEFP16, ENCODEFP16, SCALE, MULADD, NOTHING, 16, 32, 48, 64)
