#include "textflag.h"
#include "vector_amd64.h"

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
#define MUL(src, acc) VMULPS src, acc, acc

#define MULADD(src, acc) \
	VMULPS Y15, src, src; \
	VADDPS src, acc, acc

// See FLOATSTEP of vector_extremum_amd64.s.
#define PICKONE(src, acc, PICK, BOTH) \
	PICK      acc, src, Y9; \
	VCMPPS    $3, acc, acc, Y10; \
	VCMPPS    $0, acc, src, Y11; \
	BOTH      acc, src, Y12; \
	VBLENDVPS Y10, src, Y9, Y9; \
	VBLENDVPS Y11, Y12, Y9, acc

#define MAX(src, acc) PICKONE(src, acc, VMAXPS, VANDPS)
#define MIN(src, acc) PICKONE(src, acc, VMINPS, VORPS)

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
SMALL(·prodBfloat16, DECODEBF16, ENCODEBF16, NOTHING, MUL, NOTHING, 16, 32, 48, 64)
SMALL(·preMulSumBfloat16, DECODEBF16, ENCODEBF16, SCALE, MULADD, NOTHING, 16, 32, 48, 64)
SMALL(·maxBfloat16, DECODEBF16, ENCODEBF16, NOTHING, MAX, NOTHING, 16, 32, 48, 64)
SMALL(·minBfloat16, DECODEBF16, ENCODEBF16, NOTHING, MIN, NOTHING, 16, 32, 48, 64)

SMALL(·sumFloat16, DECODEFP16, ENCODEFP16, NOTHING, ADD, SCALE, 16, 32, 48, 64)
SMALL(·prodFloat16, DECODEFP16, ENCODEFP16, NOTHING, MUL, NOTHING, 16, 32, 48, 64)
SMALL(·preMulSumFloat16, DECODEFP16, ENCODEFP16, SCALE, MULADD, NOTHING, 16, 32, 48, 64)
SMALL(·maxFloat16, DECODEFP16, ENCODEFP16, NOTHING, MAX, NOTHING, 16, 32, 48, 64)
SMALL(·minFloat16, DECODEFP16, ENCODEFP16, NOTHING, MIN, NOTHING, 16, 32, 48, 64)
