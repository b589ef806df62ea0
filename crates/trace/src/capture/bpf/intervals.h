/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The intervals of a program's periodic timers: a thread that comes for every third instant alone looks like one
 * with a longer period. */
#pragma once

#include "watched.h"

/* What a program's timer is a part of. */
struct timerfd_ctx {
	union {
		struct hrtimer tmr;
	} t;
	s64 tintv;
} CO_RE;
struct k_itimer {
	s64 it_interval;
	union {
		struct {
			struct hrtimer timer;
		} real;
	} it;
} CO_RE;
struct signal_struct {
	struct hrtimer real_timer;
	s64 it_real_incr;
} CO_RE;

/* Reads a member of the structure around the timer at this address. */
#define READ_AROUND(to, address, type, timer, member)                                              \
	do {                                                                                       \
		if (field_exists(((type *)0)->member) && field_exists(((type *)0)->timer))         \
			read_kernel(to, (s64 *)(address - OFFSET_OF(type, timer) + OFFSET_OF(type, member))); \
	} while (0)
#define OFFSET_OF(type, member) __builtin_preserve_field_info(((type *)0)->member, FIELD_BYTE_OFFSET)

/* 0: the kernel doesn't arm it again, or that is not known. */
static ALWAYS_INLINE u64 interval_of(u64 function, u64 address)
{
	s64 interval_ns = 0;
	if (function && function == timer_functions[TIMERFD_TIMER])
		READ_AROUND(&interval_ns, address, struct timerfd_ctx, t.tmr, tintv);
	else if (function && function == timer_functions[POSIX_TIMER])
		READ_AROUND(&interval_ns, address, struct k_itimer, it.real.timer, it_interval);
	else if (function && function == timer_functions[PROCESS_TIMER])
		READ_AROUND(&interval_ns, address, struct signal_struct, real_timer, it_real_incr);
	return interval_ns > 0 ? interval_ns : 0;
}

/* The kernel arms a timer again for the thread: reports the interval if it is new. Like a wake-up it must arrive. */
static ALWAYS_INLINE void repeats(struct watched *thread, struct object_timer *object, u64 function, u64 address,
				  struct lane *lane, u64 now_ns, u32 cpu)
{
	u64 interval_ns = interval_of(function, address);
	if (interval_ns == object->interval_ns)
		return;
	object->interval_ns = interval_ns;
	thread->wake_ups++;
	RECORD(INTERVAL, object->tid, (u32)(address >> 3) | 1, interval_ns, 0);
}
