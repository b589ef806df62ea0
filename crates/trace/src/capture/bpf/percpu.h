/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The per-CPU area of the CPU, and the preemption count in it. */
#pragma once

#include "kernel.h"

/* Offsets in a CPU's per-CPU area; 0: not known. Set before the program is loaded. */
const volatile u64 runqueues_at = 0;
const volatile u64 preempt_count_at = 0;

/* Whether a thread shows the run queue of its CPU: it has one for its group, of whatever policy it is. */
static ALWAYS_INLINE int has_queue(struct task_struct *task)
{
	return field_exists(task->se.cfs_rq) && field_exists(((struct cfs_rq *)0)->rq);
}

/* The address of this CPU's per-CPU area: it never changes, and is kept. */
static ALWAYS_INLINE u64 own_area(u64 *kept, u32 cpu)
{
	if (*kept || !runqueues_at)
		return *kept;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!has_queue(task))
		return 0;
	struct rq *rq = task->se.cfs_rq->rq;
	if (rq->cpu != cpu)
		return 0;
	return *kept = (u64)rq - runqueues_at;
}

/* The preemption count of this CPU or, on arm64, of the current thread; `unknown` if it can't be read. */
static ALWAYS_INLINE u32 preempt_count(u64 area, u32 unknown)
{
#if defined(__TARGET_ARCH_arm64)
	return (u32)bpf_get_current_task_btf()->thread_info.preempt_count;
#else
	u32 count = unknown;
	if (area && preempt_count_at)
		read_kernel(&count, (void *)(area + preempt_count_at));
	return count;
#endif
}

/* Served softirqs count by 0x100, handlers by 0x10000, non-maskable ones by 0x100000. */
enum { SERVED_SOFTIRQ = 0x100, HANDLERS = 0x00ff0000 };

/* Whether an interrupt or a softirq runs over the current thread, which then does not do what happens. If that is
 * not known: it may. */
static ALWAYS_INLINE int in_interrupt(u64 *kept_area, u32 cpu)
{
	return (preempt_count(own_area(kept_area, cpu), HANDLERS) & (HANDLERS | SERVED_SOFTIRQ)) != 0;
}
