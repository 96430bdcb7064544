#include "textflag.h"

// ahead is how far before its stores a line is asked for. 256 to 1024 do about as well.
#define ahead 512

// PREFETCHW is the instruction of that name, which the assembler lacks, for off(DI): it takes a line from other processors' caches at once, where
// PREFETCHT0 would let them keep a copy, which the store then has to call in. Processors without it take it for no operation.
#define PREFETCHW(off) \
	BYTE $0x0f; \
	BYTE $0x0d; \
	BYTE $0x8f; \
	LONG $(off)

// func spreadBlocks(dsts *device.Ptr, ndst int, off int64, src *byte, n int)
//
//	SI dsts   CX ndst   BX off   R8 address in src   DX bytes left   R9 destination at hand   DI address in it
//
// A block is 256 bytes in Y0 … Y7. What is asked for beyond the end of a destination may not be mapped: that is no fault.
TEXT ·spreadBlocks(SB), NOSPLIT, $0-40
	MOVQ dsts+0(FP), SI
	MOVQ ndst+8(FP), CX
	MOVQ off+16(FP), BX
	MOVQ src+24(FP), R8
	MOVQ n+32(FP), DX

block:
	VMOVDQU (R8), Y0
	VMOVDQU 32(R8), Y1
	VMOVDQU 64(R8), Y2
	VMOVDQU 96(R8), Y3
	VMOVDQU 128(R8), Y4
	VMOVDQU 160(R8), Y5
	VMOVDQU 192(R8), Y6
	VMOVDQU 224(R8), Y7
	XORQ    R9, R9

destination:
	MOVQ      (SI)(R9*8), DI
	ADDQ      BX, DI
	PREFETCHW(ahead)
	PREFETCHW(ahead+64)
	PREFETCHW(ahead+128)
	PREFETCHW(ahead+192)
	VMOVDQU   Y0, (DI)
	VMOVDQU   Y1, 32(DI)
	VMOVDQU   Y2, 64(DI)
	VMOVDQU   Y3, 96(DI)
	VMOVDQU   Y4, 128(DI)
	VMOVDQU   Y5, 160(DI)
	VMOVDQU   Y6, 192(DI)
	VMOVDQU   Y7, 224(DI)
	INCQ      R9
	CMPQ      R9, CX
	JLT       destination
	ADDQ      $256, R8
	ADDQ      $256, BX
	SUBQ      $256, DX
	JNZ       block
	VZEROUPPER
	RET
