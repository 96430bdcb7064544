#include "textflag.h"

// func pause(n int)
TEXT ·pause(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
loop:
	TESTQ CX, CX
	JLE  done
	PAUSE
	DECQ CX
	JMP  loop
done:
	RET
