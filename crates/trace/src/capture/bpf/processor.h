/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What differs between processors: the registers that the kernel saves, and numbers of system calls. */
#pragma once

#if defined(__TARGET_ARCH_arm64)

struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
	s32 syscallno;
} CO_RE;
/* In the same words on all processors: as on x86, the two lowest bits of the segment are set in a program. */
enum { PROGRAM_SEGMENT = 3 };
enum { CALL_YIELD = 124, CALL_FUTEX = 98, CALL_TIMERFD_SETTIME = 86, CALL_TIMER_SETTIME = 110 };
/* `alarm` is this one, too. */
enum { CALL_SETITIMER = 103, CALL_ALARM = CALL_SETITIMER };

static ALWAYS_INLINE s64 call_number(struct pt_regs *regs)
{
	return regs->syscallno;
}
#define FIRST_ARGUMENT(registers) ((registers)->regs[0])
#define SECOND_ARGUMENT(registers) ((registers)->regs[1])
#define INSTRUCTION(registers) ((registers)->pc)
/* The exception level is in bits 2 and 3, 32-bit mode in bit 4 (PSR_MODE_MASK in asm/ptrace.h). */
static ALWAYS_INLINE u64 segment_of(u64 state)
{
	return state & 0xf ? 0 : PROGRAM_SEGMENT;
}
#define STATE_OF(registers) ((registers)->pstate)
static ALWAYS_INLINE int is_program_of_64_bits(struct pt_regs *regs)
{
	return (regs->pstate & 0x1f) == 0;
}

#else

struct pt_regs {
	u64 si;
	u64 di;
	u64 orig_ax;
	u64 ip;
	u64 cs;
	u64 sp;
} CO_RE;
/* The code segment of programs of 64 bits: __USER_CS in asm/segment.h. */
enum { USER_CODE_64 = 0x33 };
enum { CALL_YIELD = 24, CALL_FUTEX = 202, CALL_TIMERFD_SETTIME = 286, CALL_TIMER_SETTIME = 223 };
enum { CALL_SETITIMER = 38, CALL_ALARM = 37 };

static ALWAYS_INLINE s64 call_number(struct pt_regs *regs)
{
	return regs->orig_ax;
}
#define FIRST_ARGUMENT(registers) ((registers)->di)
#define SECOND_ARGUMENT(registers) ((registers)->si)
#define INSTRUCTION(registers) ((registers)->ip)
static ALWAYS_INLINE u64 segment_of(u64 segment)
{
	return segment;
}
/* The processor pushes the instruction and the code segment next to each other. */
#define STATE_OF(registers) ((registers)->cs)
static ALWAYS_INLINE int is_program_of_64_bits(struct pt_regs *regs)
{
	return (u16)regs->cs == USER_CODE_64;
}

#endif
