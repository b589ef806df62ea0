/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Stacks of what delays a target, and what the recorder writes about them.
 *
 * capture/stacks.rs decodes them. */
#pragma once

#include "kernel.h"
#include "ring.h"

enum { STACK = 21, LEFT = 23 }; /* in enum kind */

#define FRAMES 32
#define STACKS 64
struct stack {
	u64 frames[FRAMES];
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, STACKS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct stack);
} stacks SEC(".maps");

static ALWAYS_INLINE u32 current_tid(void)
{
	return (u32)bpf_get_current_pid_tgid();
}

static ALWAYS_INLINE void take_stack(void *ctx, struct lane *lane, u32 cpu, u64 now_ns)
{
	if (lane->stacks - lane->stacks_read >= STACKS)
		return;
	u64 number = __sync_fetch_and_add(&lane->stacks, 1) & (STACKS - 1);
	u32 index = cpu * STACKS + number;
	struct stack *stack = bpf_map_lookup_elem(&stacks, &index);
	if (!stack)
		return;
	long bytes = bpf_get_stack(ctx, stack, sizeof(*stack), 0);
	u64 end_ns = bpf_ktime_get_ns();
	record(lane, end_ns, cpu, STACK, index, (u64)bytes, end_ns - now_ns, current_tid());
}

static ALWAYS_INLINE u64 switches_from(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* No thread is waited for any more. */
static ALWAYS_INLINE void forget_who_left(struct lane *lane)
{
	if (!lane->waiting)
		return;
	lane->waiting = 0;
	for (u32 at = 0; at < LEFTS; at++)
		lane->left[at].tid = 0;
}

/* A target is late, and a runnable thread releases the CPU for it: its stack is taken when it runs
 * again, because the target must not wait for that. Until then other threads may release the CPU
 * as well: the collector, or the next process that delays the target. */
static ALWAYS_INLINE void note_who_left(struct lane *lane, u64 now_ns, struct task_struct *from, u64 runs_on, u64 since_ns)
{
	u64 worth_ns = lane->worth_ns;
	if (!worth_ns || !from->pid || !runs_on)
		return;
	if (!since_ns || now_ns < since_ns + worth_ns || lane->stacks - lane->stacks_read >= STACKS)
		return;
	u32 tid = from->pid, free = LEFTS;
	if (!lane->waiting)
		free = 0;
	else
		for (u32 at = 0; at < LEFTS; at++)
			if (lane->left[at].tid == tid || (free == LEFTS && !lane->left[at].tid))
				free = at;
	/* Some never run again: they ended, or another CPU took them over. */
	if (free == LEFTS)
		free = lane->turns++;
	struct left *left = &lane->left[free % LEFTS];
	if (!left->tid)
		lane->waiting++;
	left->at_ns = now_ns;
	left->count = switches_from(from);
	left->tid = tid;
}

/* A stack takes 5 to 30 us, with interrupts disabled. */
enum { STACK_MOST_NS = 50000 };

/* The thread runs again. Its stack is as it was, unless it has run elsewhere meanwhile. If the
 * target is due again too soon for a stack, only the thread's system call is recorded, within 0.5 us. */
static ALWAYS_INLINE void take_stack_left(struct lane *lane, u64 now_ns, u32 cpu, struct task_struct *task, struct left *left)
{
	left->tid = 0;
	lane->waiting--;
	if (switches_from(task) != left->count)
		return;
	s32 call = -1;
	struct pt_regs *regs = bpf_task_pt_regs(task);
	/* A program that was interrupted has -1, a kernel thread no registers of a program, and a program of
	 * 32 bits has other numbers. */
	if (regs && is_program_of_64_bits(regs))
		call = call_number(regs);
	u32 index = 0;
	long bytes = 0;
	if (!lane->due_ns || now_ns + STACK_MOST_NS <= lane->due_ns) {
		u64 number = __sync_fetch_and_add(&lane->stacks, 1) & (STACKS - 1);
		index = cpu * STACKS + number;
		struct stack *stack = bpf_map_lookup_elem(&stacks, &index);
		if (!stack)
			return;
		bytes = bpf_get_task_stack(task, stack, sizeof(*stack), 0);
	}
	u64 end_ns = bpf_ktime_get_ns();
	u32 turn;
	struct slot *slot = begin(lane, end_ns, cpu, LEFT, &turn);
	if (!slot)
		return;
	slot->a = index;
	slot->b = (u64)bytes;
	slot->c = end_ns - now_ns;
	slot->d = (u64)(u32)call << 32 | (u32)task->pid;
	*(u64 *)slot->name = left->at_ns;
	done(slot, turn);
}

/* A thread begins to run: it may be one of those in left. */
static ALWAYS_INLINE void look_who_is_back(struct lane *lane, u64 now_ns, u32 cpu, struct task_struct *task)
{
	if (!lane->waiting)
		return;
	u32 tid = task->pid, found = LEFTS;
	for (u32 at = 0; at < LEFTS; at++)
		if (tid && lane->left[at].tid == tid)
			found = at;
	if (found < LEFTS)
		take_stack_left(lane, now_ns, cpu, task, &lane->left[found]);
}
