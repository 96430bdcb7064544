#include "textflag.h"
#include "vector_amd64.h"

// 16- and 8-bit floats, computed in float32. A block is 32 elements in Y0 … Y3; a source's are decoded to Y4 … Y7.
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
DATA abs32<>+0(SB)/8, $0x7fffffff7fffffff
DATA abs32<>+8(SB)/8, $0x7fffffff7fffffff
DATA abs32<>+16(SB)/8, $0x7fffffff7fffffff
DATA abs32<>+24(SB)/8, $0x7fffffff7fffffff
GLOBL abs32<>(SB), RODATA|NOPTR, $32
DATA sign8<>+0(SB)/8, $0x0000008000000080
DATA sign8<>+8(SB)/8, $0x0000008000000080
DATA sign8<>+16(SB)/8, $0x0000008000000080
DATA sign8<>+24(SB)/8, $0x0000008000000080
GLOBL sign8<>(SB), RODATA|NOPTR, $32
DATA inf32<>+0(SB)/8, $0x7f8000007f800000
DATA inf32<>+8(SB)/8, $0x7f8000007f800000
DATA inf32<>+16(SB)/8, $0x7f8000007f800000
DATA inf32<>+24(SB)/8, $0x7f8000007f800000
GLOBL inf32<>(SB), RODATA|NOPTR, $32
DATA sign8w<>+0(SB)/8, $0x0080008000800080
DATA sign8w<>+8(SB)/8, $0x0080008000800080
DATA sign8w<>+16(SB)/8, $0x0080008000800080
DATA sign8w<>+24(SB)/8, $0x0080008000800080
GLOBL sign8w<>(SB), RODATA|NOPTR, $32
DATA abs8w<>+0(SB)/8, $0x007f007f007f007f
DATA abs8w<>+8(SB)/8, $0x007f007f007f007f
DATA abs8w<>+16(SB)/8, $0x007f007f007f007f
DATA abs8w<>+24(SB)/8, $0x007f007f007f007f
GLOBL abs8w<>(SB), RODATA|NOPTR, $32
DATA nan16w<>+0(SB)/8, $0x7e007e007e007e00
DATA nan16w<>+8(SB)/8, $0x7e007e007e007e00
DATA nan16w<>+16(SB)/8, $0x7e007e007e007e00
DATA nan16w<>+24(SB)/8, $0x7e007e007e007e00
GLOBL nan16w<>(SB), RODATA|NOPTR, $32
DATA f256<>+0(SB)/8, $0x4380000043800000
DATA f256<>+8(SB)/8, $0x4380000043800000
DATA f256<>+16(SB)/8, $0x4380000043800000
DATA f256<>+24(SB)/8, $0x4380000043800000
GLOBL f256<>(SB), RODATA|NOPTR, $32
DATA e4m3Max<>+0(SB)/8, $0x43e0000043e00000
DATA e4m3Max<>+8(SB)/8, $0x43e0000043e00000
DATA e4m3Max<>+16(SB)/8, $0x43e0000043e00000
DATA e4m3Max<>+24(SB)/8, $0x43e0000043e00000
GLOBL e4m3Max<>(SB), RODATA|NOPTR, $32
DATA e4m3Min<>+0(SB)/8, $0x3c8000003c800000
DATA e4m3Min<>+8(SB)/8, $0x3c8000003c800000
DATA e4m3Min<>+16(SB)/8, $0x3c8000003c800000
DATA e4m3Min<>+24(SB)/8, $0x3c8000003c800000
GLOBL e4m3Min<>(SB), RODATA|NOPTR, $32
DATA e4m3Magic<>+0(SB)/8, $0x4680000046800000
DATA e4m3Magic<>+8(SB)/8, $0x4680000046800000
DATA e4m3Magic<>+16(SB)/8, $0x4680000046800000
DATA e4m3Magic<>+24(SB)/8, $0x4680000046800000
GLOBL e4m3Magic<>(SB), RODATA|NOPTR, $32
DATA e4m3Bias<>+0(SB)/8, $0xc407ffffc407ffff
DATA e4m3Bias<>+8(SB)/8, $0xc407ffffc407ffff
DATA e4m3Bias<>+16(SB)/8, $0xc407ffffc407ffff
DATA e4m3Bias<>+24(SB)/8, $0xc407ffffc407ffff
GLOBL e4m3Bias<>(SB), RODATA|NOPTR, $32
DATA e4m3NaN<>+0(SB)/8, $0x0000007f0000007f
DATA e4m3NaN<>+8(SB)/8, $0x0000007f0000007f
DATA e4m3NaN<>+16(SB)/8, $0x0000007f0000007f
DATA e4m3NaN<>+24(SB)/8, $0x0000007f0000007f
GLOBL e4m3NaN<>(SB), RODATA|NOPTR, $32
DATA e5m2Max<>+0(SB)/8, $0x4760000047600000
DATA e5m2Max<>+8(SB)/8, $0x4760000047600000
DATA e5m2Max<>+16(SB)/8, $0x4760000047600000
DATA e5m2Max<>+24(SB)/8, $0x4760000047600000
GLOBL e5m2Max<>(SB), RODATA|NOPTR, $32
DATA e5m2Min<>+0(SB)/8, $0x3880000038800000
DATA e5m2Min<>+8(SB)/8, $0x3880000038800000
DATA e5m2Min<>+16(SB)/8, $0x3880000038800000
DATA e5m2Min<>+24(SB)/8, $0x3880000038800000
GLOBL e5m2Min<>(SB), RODATA|NOPTR, $32
DATA e5m2Magic<>+0(SB)/8, $0x4300000043000000
DATA e5m2Magic<>+8(SB)/8, $0x4300000043000000
DATA e5m2Magic<>+16(SB)/8, $0x4300000043000000
DATA e5m2Magic<>+24(SB)/8, $0x4300000043000000
GLOBL e5m2Magic<>(SB), RODATA|NOPTR, $32
DATA e5m2Bias<>+0(SB)/8, $0xc80fffffc80fffff
DATA e5m2Bias<>+8(SB)/8, $0xc80fffffc80fffff
DATA e5m2Bias<>+16(SB)/8, $0xc80fffffc80fffff
DATA e5m2Bias<>+24(SB)/8, $0xc80fffffc80fffff
GLOBL e5m2Bias<>(SB), RODATA|NOPTR, $32
DATA e5m2NaN<>+0(SB)/8, $0x0000007e0000007e
DATA e5m2NaN<>+8(SB)/8, $0x0000007e0000007e
DATA e5m2NaN<>+16(SB)/8, $0x0000007e0000007e
DATA e5m2NaN<>+24(SB)/8, $0x0000007e0000007e
GLOBL e5m2NaN<>(SB), RODATA|NOPTR, $32

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

// E5M2 is the upper half of a float16.
#define DECODEE5M2(mem, x, y) \
	VPMOVZXBW mem, x; \
	VPSLLW    $8, x, x; \
	VCVTPH2PS x, y

// E4M3's fields, moved to their positions in a float16, give 2^-8 of the value, since the biases are 7 and 15. NaN is
// converted separately.
#define DECODEE4M3(mem, x, y) \
	VPMOVZXBW mem, x; \
	VPAND     abs8w<>(SB), x, X9; \
	VPAND     sign8w<>(SB), x, X10; \
	VPCMPEQW  abs8w<>(SB), X9, X8; \
	VPSLLW    $7, X9, X9; \
	VPSLLW    $8, X10, X10; \
	VPOR      X9, X10, X9; \
	VPAND     nan16w<>(SB), X8, X8; \
	VPOR      X8, X9, X9; \
	VCVTPH2PS X9, y; \
	VMULPS    f256<>(SB), y, y

// Like float32ToE4M3 and float32ToE5M2. Y11: the saturated magnitude; Y12: as a subnormal; Y13: as a normal number.
#define ENCODEFP8(mem, y, max, min, magic, bias, nan, shift) \
	VPSRLD       $24, y, Y8; \
	VPAND        sign8<>(SB), Y8, Y8; \
	VPAND        abs32<>(SB), y, Y9; \
	VPCMPGTD     inf32<>(SB), Y9, Y10; \
	VPMINSD      max<>(SB), Y9, Y11; \
	VADDPS       magic<>(SB), Y11, Y12; \
	VPSUBD       magic<>(SB), Y12, Y12; \
	VPSRLD       $shift, Y11, Y13; \
	VPAND        one32<>(SB), Y13, Y13; \
	VPADDD       Y11, Y13, Y13; \
	VPADDD       bias<>(SB), Y13, Y13; \
	VPSRLD       $shift, Y13, Y13; \
	VMOVDQU      min<>(SB), Y14; \
	VPCMPGTD     Y11, Y14, Y14; \
	VBLENDVPS    Y14, Y12, Y13, Y13; \
	VBLENDVPS    Y10, nan<>(SB), Y13, Y13; \
	VPOR         Y8, Y13, Y8; \
	VEXTRACTI128 $1, Y8, X9; \
	VPACKUSDW    X9, X8, X8; \
	VPACKUSWB    X8, X8, X8; \
	VMOVQ        X8, mem

#define ENCODEE4M3(mem, x, y) ENCODEFP8(mem, y, e4m3Max, e4m3Min, e4m3Magic, e4m3Bias, e4m3NaN, 20)
#define ENCODEE5M2(mem, x, y) ENCODEFP8(mem, y, e5m2Max, e5m2Min, e5m2Magic, e5m2Bias, e5m2NaN, 21)

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

SMALL(·sumFloat8E4M3, DECODEE4M3, ENCODEE4M3, NOTHING, ADD, SCALE, 8, 16, 24, 32)
SMALL(·prodFloat8E4M3, DECODEE4M3, ENCODEE4M3, NOTHING, MUL, NOTHING, 8, 16, 24, 32)
SMALL(·preMulSumFloat8E4M3, DECODEE4M3, ENCODEE4M3, SCALE, MULADD, NOTHING, 8, 16, 24, 32)

SMALL(·sumFloat8E5M2, DECODEE5M2, ENCODEE5M2, NOTHING, ADD, SCALE, 8, 16, 24, 32)
SMALL(·prodFloat8E5M2, DECODEE5M2, ENCODEE5M2, NOTHING, MUL, NOTHING, 8, 16, 24, 32)
SMALL(·preMulSumFloat8E5M2, DECODEE5M2, ENCODEE5M2, SCALE, MULADD, NOTHING, 8, 16, 24, 32)
