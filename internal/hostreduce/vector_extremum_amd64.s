#include "textflag.h"
#include "vector_amd64.h"

// Max and min of floats, for which there is no single instruction. A block is 128 bytes in Y0 … Y3;
// the rest is processed in blocks of 32 bytes in Y0.

#define LOAD128 \
	VMOVDQU (R8), Y0; \
	VMOVDQU 32(R8), Y1; \
	VMOVDQU 64(R8), Y2; \
	VMOVDQU 96(R8), Y3

#define STORE128 \
	LEAQ (DI)(BX*1), R8; \
	VMOVDQU Y0, (R8); \
	VMOVDQU Y1, 32(R8); \
	VMOVDQU Y2, 64(R8); \
	VMOVDQU Y3, 96(R8)

#define EXTREMUM(name, STEP) \
TEXT name(SB), NOSPLIT, $0-40; \
	PROLOGUE(128); \
	JLT  rest; \
block: \
	FIRST; \
	LOAD128; \
	JMP  test; \
source: \
	NEXT; \
	STEP(0, Y0); \
	STEP(32, Y1); \
	STEP(64, Y2); \
	STEP(96, Y3); \
test: \
	DECQ R10; \
	JNZ  source; \
	STORE128; \
	ADVANCE(128); \
	JGE  block; \
rest: \
	TESTQ DX, DX; \
	JZ   done; \
	FIRST; \
	VMOVDQU (R8), Y0; \
	JMP  testrest; \
sourcerest: \
	NEXT; \
	STEP(0, Y0); \
testrest: \
	DECQ R10; \
	JNZ  sourcerest; \
	VMOVDQU Y0, (DI)(BX*1); \
	ADVANCE(32); \
	JMP  rest; \
done: \
	VZEROUPPER; \
	RET

// Floats. VMIN and VMAX return their second source (the first here, in Go's order) when either is NaN and when they are
// equal. The accumulator is that operand, so it wins against a NaN source. Then a NaN accumulator is replaced by the
// source. Where both are equal, which matters for zeros only, the sign bits are combined: by OR for min, by AND for max.
#define FLOATSTEP(off, acc, MOV, PICK, CMP, BLEND, BOTH) \
	MOV   off(R8), Y8; \
	PICK  acc, Y8, Y9; \
	CMP   $3, acc, acc, Y10; \
	CMP   $0, acc, Y8, Y11; \
	BOTH  acc, Y8, Y12; \
	BLEND Y10, Y8, Y9, Y9; \
	BLEND Y11, Y12, Y9, acc

#define MAXPS(off, acc) FLOATSTEP(off, acc, VMOVUPS, VMAXPS, VCMPPS, VBLENDVPS, VANDPS)
#define MINPS(off, acc) FLOATSTEP(off, acc, VMOVUPS, VMINPS, VCMPPS, VBLENDVPS, VORPS)
#define MAXPD(off, acc) FLOATSTEP(off, acc, VMOVUPD, VMAXPD, VCMPPD, VBLENDVPD, VANDPD)
#define MINPD(off, acc) FLOATSTEP(off, acc, VMOVUPD, VMINPD, VCMPPD, VBLENDVPD, VORPD)

EXTREMUM(·maxFloat32, MAXPS)
EXTREMUM(·minFloat32, MINPS)
EXTREMUM(·maxFloat64, MAXPD)
EXTREMUM(·minFloat64, MINPD)
