/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The programs that are watched, and which of their threads. */
#pragma once

#include "kernel.h"

/* Set before the program is loaded. */
const volatile u32 program = 0; /* whose threads are watched; 0: those of `programs` */
const volatile u32 every = 0;   /* threads of ordinary priority too */

enum { SCHED_FIFO = 1, SCHED_RR = 2, SCHED_DEADLINE = 6 };

/* One of several programs. */
struct followed {
	u64 started_ns; /* distinguishes it from a later one with its number; 0: not known yet */
	u64 turn;       /* grows with each program that comes: distinguishes its return from its stay */
};
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 1); /* more if several are watched */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct followed);
} programs SEC(".maps");

static ALWAYS_INLINE struct followed *followed(struct task_struct *task)
{
	u32 number = task->tgid;
	if (!number)
		return 0;
	struct followed *found = bpf_map_lookup_elem(&programs, &number);
	if (!found)
		return 0;
	u64 started_ns = task->group_leader->start_time;
	if (!found->started_ns)
		found->started_ns = started_ns;
	return found->started_ns == started_ns ? found : 0;
}

static ALWAYS_INLINE int is_watched(struct task_struct *task)
{
	if (program)
		return task->tgid == program;
	return followed(task) != 0;
}

static ALWAYS_INLINE int is_counted(struct task_struct *task)
{
	if (!is_watched(task))
		return 0;
	u32 policy = task->policy;
	return every || policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}
