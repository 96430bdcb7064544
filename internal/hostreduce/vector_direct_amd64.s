#include "textflag.h"
#include "vector_amd64.h"

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
DIRECT(·prodFloat32, VMULPS)
DIRECT(·prodFloat64, VMULPD)
DIRECT(·sumInt8, VPADDB)
DIRECT(·sumInt32, VPADDD)
DIRECT(·sumInt64, VPADDQ)
DIRECT(·prodInt32, VPMULLD)
DIRECT(·maxInt8, VPMAXSB)
DIRECT(·minInt8, VPMINSB)
DIRECT(·maxUint8, VPMAXUB)
DIRECT(·minUint8, VPMINUB)
DIRECT(·maxInt32, VPMAXSD)
DIRECT(·minInt32, VPMINSD)
DIRECT(·maxUint32, VPMAXUD)
DIRECT(·minUint32, VPMINUD)
