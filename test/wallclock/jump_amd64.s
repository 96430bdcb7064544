#include "textflag.h"

// jumped is called as C's clock_gettime: the clock in DI, the address of seconds and nanoseconds in SI.
TEXT ·jumped(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	PUSHQ DI
	PUSHQ SI
	SUBQ  $8, SP // C wants 16 bytes of alignment
	MOVQ  ·kernel(SB), AX
	CALL  AX
	ADDQ  $8, SP
	POPQ  SI
	POPQ  DI
	TESTL DI, DI // CLOCK_REALTIME
	JNE   done
	MOVQ  ·offset(SB), CX
	ADDQ  CX, (SI)

done:
	RET

// func start() bool
TEXT ·start(SB), NOSPLIT, $0-1
	MOVQ  runtime·vdsoClockgettimeSym(SB), AX
	TESTQ AX, AX
	SETNE ret+0(FP)
	JEQ   none
	MOVQ  AX, ·kernel(SB)
	LEAQ  ·jumped(SB), CX
	MOVQ  CX, runtime·vdsoClockgettimeSym(SB)

none:
	RET
