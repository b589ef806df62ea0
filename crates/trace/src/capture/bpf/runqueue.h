/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* How long threads are ready to run and have no CPU: after a wake-up, and after a preemption.
 *
 * trace/watch/queue.rs reads these maps. */
#pragma once

#include "lengths.h"

/* Set before the program is loaded, with the size of the map. */
const volatile u32 run_queue = 0;

enum after { AFTER_WAKE_UP, AFTER_PREEMPTION, AFTER_KINDS };
enum { TASK_DEAD_STATE = 0x80, DEADLINE_POLICY = 6 };

/* A resolution of 1 in 16. */
#define QUEUE_PART_BITS 4
struct queue_times {
	u64 count, total_ns, longest_ns, longest_at_ns;
	u32 lengths[PLACES(QUEUE_PART_BITS)];
};
struct queued {
	u64 started_ns; /* distinguishes it from a later one with the same number */
	u64 priority;   /* policy << 32 | the kernel's priority, without priority inheritance */
	char name[16];
	u64 program;
	u64 ended;
	u64 since_ns;   /* ready since then; 0: it isn't */
	u64 after;
	u64 state;      /* its state at the preemption: not 0 if it was going to sleep */
	u64 unseen;     /* times whose end was not recorded */
	struct queue_times times[AFTER_KINDS];
};
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct queued);
} queued SEC(".maps");

/* Only a template for new entries: it is too large for the stack. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct queued);
} never_queued SEC(".maps");

/* Times that exceeded the map's size, and those of threads whose number another thread has now: a reader
 * subtracts those it has read before. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} queue_lost SEC(".maps");

static ALWAYS_INLINE void lose_times(u64 count)
{
	u32 zero = 0;
	u64 *lost = bpf_map_lookup_elem(&queue_lost, &zero);
	if (lost)
		__sync_fetch_and_add(lost, count);
}

static NOINLINE struct queued *queued_of(u32 tid, u64 started_ns)
{
	struct queued *thread = bpf_map_lookup_elem(&queued, &tid);
	if (thread && thread->started_ns == started_ns)
		return thread;
	u32 zero = 0;
	struct queued *empty = bpf_map_lookup_elem(&never_queued, &zero);
	if (!empty)
		return 0;
	/* Replaces a thread that had its number. */
	if (thread)
		lose_times(thread->times[AFTER_WAKE_UP].count + thread->times[AFTER_PREEMPTION].count);
	bpf_map_update_elem(&queued, &tid, empty, UPDATE_ANY);
	thread = bpf_map_lookup_elem(&queued, &tid);
	if (thread) {
		thread->started_ns = started_ns;
		return thread;
	}
	lose_times(1);
	return 0;
}

static ALWAYS_INLINE void is_queued(struct task_struct *task, u64 now_ns)
{
	if (!run_queue)
		return;
	struct queued *thread = queued_of(task->pid, task->start_time);
	if (!thread)
		return;
	if (thread->since_ns) {
		/* Preempted while going to sleep, it is woken on the run queue and continues to wait. */
		if (thread->after == AFTER_PREEMPTION && thread->state)
			return;
		/* A thread that waits already is not woken: so it has run since. Some kernels show no switch
		 * while certain tasks run, for example a hypervisor's agent. */
		thread->unseen++;
	}
	thread->since_ns = now_ns;
	thread->after = AFTER_WAKE_UP;
}

/* It leaves its CPU, and is ready or not: a signal may have ended its sleep already. A waking while
 * it ran does not count. */
static ALWAYS_INLINE void leaves_cpu(struct task_struct *task, u64 preempted, u64 now_ns)
{
	if (!run_queue)
		return;
	u64 state = task->__state;
	int ready = preempted & 1 || !state;
	/* Throttled, or done with its job: it is on no run queue until its next period, and no event
	 * shows when it is ready again. */
	if (task->policy == DEADLINE_POLICY && (task->dl.runtime <= 0 || !(preempted & 1)))
		ready = 0;
	u32 tid = task->pid;
	struct queued *thread;
	if (ready)
		thread = queued_of(tid, task->start_time);
	else
		thread = bpf_map_lookup_elem(&queued, &tid);
	if (!thread)
		return;
	if (!(preempted & 1) && state & TASK_DEAD_STATE)
		thread->ended = now_ns;
	thread->since_ns = ready ? now_ns : 0;
	thread->after = AFTER_PREEMPTION;
	thread->state = state;
}

static ALWAYS_INLINE void takes_cpu(struct task_struct *task, u64 now_ns)
{
	if (!run_queue)
		return;
	u32 tid = task->pid;
	struct queued *thread = bpf_map_lookup_elem(&queued, &tid);
	if (!thread || !thread->since_ns || thread->started_ns != task->start_time)
		return;
	u64 length_ns = now_ns - thread->since_ns;
	thread->since_ns = 0;
	thread->priority = (u64)task->policy << 32 | (u32)task->normal_prio;
	thread->program = task->tgid;
	__builtin_memcpy(thread->name, task->comm, sizeof(thread->name));
	struct queue_times *times = &thread->times[thread->after & 1];
	times->count++;
	times->total_ns += length_ns;
	if (length_ns >= times->longest_ns) {
		times->longest_ns = length_ns;
		times->longest_at_ns = now_ns;
	}
	u32 at = place(length_ns, QUEUE_PART_BITS);
	if (at < PLACES(QUEUE_PART_BITS))
		times->lengths[at]++;
}
