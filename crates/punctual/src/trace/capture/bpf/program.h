/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The program that is watched, and which of its threads are. */
#pragma once

#include "kernel.h"

/* Set before the program is loaded. */
const volatile u32 program = 0; /* whose threads are watched */
const volatile u32 every = 0;   /* those of ordinary priority too */

enum { SCHED_FIFO = 1, SCHED_RR = 2, SCHED_DEADLINE = 6 };

static ALWAYS_INLINE int is_counted(struct task_struct *task)
{
	if (task->tgid != program)
		return 0;
	u32 policy = task->policy;
	return every || policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}
