/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Jobs of threads under SCHED_DEADLINE: when they end, and what they use of their budget. */
#pragma once

#include "watched.h"

static ALWAYS_INLINE u64 scheduler_clock(struct task_struct *task)
{
	if (!field_exists(task->se.cfs_rq) || !field_exists(((struct cfs_rq *)0)->rq))
		return 0;
	return task->se.cfs_rq->rq->clock;
}

/* What a thread under SCHED_DEADLINE has used of its budget since it was last switched to or from: if one of
 * the two was not recorded, the next one accounts for it. The kernel scales the amount by the CPU's capacity
 * and frequency; if it also refilled the budget meanwhile, the CPU time is used instead. */
static ALWAYS_INLINE void budget_used(struct watched *thread, struct task_struct *task)
{
	u64 ran_ns = task->se.sum_exec_runtime, until = task->dl.deadline;
	s64 left = task->dl.runtime;
	if (thread->ran_ns && ran_ns != thread->ran_ns) {
		int refilled = until != thread->budget_until || left > thread->budget_left;
		thread->used_ns += refilled ? ran_ns - thread->ran_ns : thread->budget_left - left;
	}
	thread->ran_ns = ran_ns;
	thread->budget_left = left;
	thread->budget_until = until;
}

/* A job of SCHED_DEADLINE begins with the first switch to it after the previous one's end. */
static ALWAYS_INLINE void job_begins(struct watched *thread, struct task_struct *task, u64 now_ns)
{
	if (thread->throttled_ns) {
		u64 length_ns = now_ns - thread->throttled_ns;
		thread->throttles_ns += length_ns;
		if (length_ns > thread->worst_throttle_ns)
			thread->worst_throttle_ns = length_ns;
		thread->throttled_ns = 0;
	}
	budget_used(thread, task);
	u64 deadline = task->dl.deadline;
	if (!thread->job_deadline)
		thread->job_deadline = deadline;
	else if (deadline > thread->job_deadline)
		thread->postponed++;
}

/* Its budget is used up: it must wait for the next period. */
static ALWAYS_INLINE void throttled(struct watched *thread, u64 now_ns)
{
	thread->throttles++;
	thread->job_throttles++;
	thread->throttled_ns = now_ns;
}

static ALWAYS_INLINE void tell_job(struct watched *thread, struct task_struct *task, struct lane *lane, u64 now_ns, u32 cpu)
{
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, JOB, &turn);
	if (!slot)
		return;
	thread->wake_ups++;
	slot->a = thread->job_throttles << 32 | (u32)task->pid;
	slot->b = thread->used_ns;
	slot->c = task->dl.dl_runtime;
	slot->d = task->dl.dl_deadline;
	((u64 *)slot->name)[0] = task->dl.dl_period;
	((u64 *)slot->name)[1] = 0;
	done(slot, turn);
}

static ALWAYS_INLINE void job_ends(struct watched *thread, struct task_struct *task, struct lane *lane, u64 now_ns, u32 cpu)
{
	u64 at = scheduler_clock(task);
	/* A thread that ends has no budget any more. */
	if (thread->used_ns && task->dl.dl_runtime)
		tell_job(thread, task, lane, now_ns, cpu);
	thread->used_ns = thread->job_throttles = 0;
	if (!thread->job_deadline || !at)
		return;
	thread->jobs++;
	if (at > thread->job_deadline) {
		thread->late_jobs++;
		if (at - thread->job_deadline > thread->worst_job_ns)
			thread->worst_job_ns = at - thread->job_deadline;
	}
	forget_job(thread);
}
