/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Who stops a target: by a signal, or as its debugger. */
#pragma once

#include "kernel.h"
#include "ring.h"

enum { STOP = 25 }; /* in enum kind */

enum { SIGNAL_STOP = 19, SIGNAL_TTOU = 22, SIGNAL_DELIVERED = 0 };
enum { STATE_STOPPED = 4, STATE_TRACED = 8 };

/* The last stop signal for a process. */
struct stop {
	u32 pid;
	u32 signal;
	u32 sender; /* 0: an interrupt */
	u32 unused;
	u64 scheduling; /* as in the slot of a waking */
	char name[16];
};
#define STOPS 64 /* processes; a later one with the same remainder replaces an earlier one */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, STOPS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct stop);
} stops SEC(".maps");

ON(signal_generate)
{
	s32 signal = (s32)args[0];
	if (signal < SIGNAL_STOP || signal > SIGNAL_TTOU || (s32)args[4] != SIGNAL_DELIVERED)
		return 0;
	struct task_struct *task = (struct task_struct *)args[2];
	u32 pid = task->tgid, index = pid % STOPS, cpu = bpf_get_smp_processor_id();
	struct stop *stop = bpf_map_lookup_elem(&stops, &index);
	struct lane *own = lane_of(cpu);
	if (!stop || !own)
		return 0;
	stop->pid = pid;
	stop->signal = signal;
	stop->sender = 0;
	if (!in_interrupt(own, cpu)) {
		struct task_struct *sender = bpf_get_current_task_btf();
		stop->sender = sender->pid;
		stop->scheduling = (u64)sender->policy << 32 | (u16)sender->normal_prio;
		__builtin_memcpy(stop->name, sender->comm, sizeof(stop->name));
	}
	return 0;
}

/* A target leaves its CPU because it is stopped. */
static ALWAYS_INLINE void record_stop(struct lane *lane, struct task_struct *task, u64 state, u64 now_ns, u32 cpu)
{
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, STOP, &turn);
	if (!slot)
		return;
	u32 pid = task->tgid, index = pid % STOPS;
	slot->a = (u32)task->pid;
	slot->b = 0;
	slot->c = 0;
	slot->d = 0;
	slot->name[0] = 0;
	struct stop *stop = bpf_map_lookup_elem(&stops, &index);
	if (state & STATE_TRACED) {
		name_holder(slot, task->parent);
	} else if (stop && stop->pid == pid) {
		slot->b = stop->sender;
		slot->c = stop->scheduling;
		slot->d = stop->signal;
		__builtin_memcpy(slot->name, stop->name, sizeof(slot->name));
	}
	done(slot, turn);
}
