/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Who stops a target: by a signal, or as its debugger. */
#pragma once

#include "kernel.h"
#include "ring.h"

enum { STOP = 25 }; /* in enum kind */

enum { SIGNAL_STOP = 19, SIGNAL_TTOU = 22, SIGNAL_DELIVERED = 0 };
enum { STATE_STOPPED = 4, STATE_TRACED = 8 };

/* The last stop signal for each process, as a slot: its number in a, who sent it in b, c and name, the
 * signal in d. A later process with the same remainder replaces an earlier one. */
#define STOPS 1024
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, STOPS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct slot);
} stops SEC(".maps");

static ALWAYS_INLINE void fill_stop(struct slot *slot, u32 number, u32 signal, struct task_struct *by)
{
	slot->a = number;
	slot->b = slot->c = 0;
	slot->d = signal;
	slot->name[0] = 0;
	if (by)
		name_holder(slot, by);
}

ON(signal_generate)
{
	s32 signal = (s32)args[0];
	if (signal < SIGNAL_STOP || signal > SIGNAL_TTOU || (s32)args[4] != SIGNAL_DELIVERED)
		return 0;
	struct task_struct *task = (struct task_struct *)args[2];
	u32 pid = task->tgid, index = pid % STOPS, cpu = bpf_get_smp_processor_id();
	struct slot *stop = bpf_map_lookup_elem(&stops, &index);
	struct lane *own = lane_of(cpu);
	if (!stop || !own)
		return 0;
	struct task_struct *by = bpf_get_current_task_btf();
	/* A worker hands on what a terminal received. */
	if (in_interrupt(&own->area, cpu) || by->flags & FLAG_OF_KERNEL)
		by = 0;
	fill_stop(stop, pid, signal, by);
	return 0;
}

/* A target leaves its CPU because it is stopped. */
static ALWAYS_INLINE void record_stop(struct lane *lane, struct task_struct *task, u64 state, u64 now_ns, u32 cpu)
{
	u32 turn, tid = task->pid, pid = task->tgid, index = pid % STOPS;
	struct slot *slot = begin(lane, now_ns, cpu, STOP, &turn);
	struct slot *stop = bpf_map_lookup_elem(&stops, &index);
	if (!slot || !stop)
		return;
	fill_stop(slot, tid, 0, state & STATE_TRACED ? task->parent : 0);
	if (!(state & STATE_TRACED) && stop->a == pid) {
		slot->b = stop->b;
		slot->c = stop->c;
		slot->d = stop->d;
		__builtin_memcpy(slot->name, stop->name, sizeof(slot->name));
	}
	done(slot, turn);
}
