/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The timers whose callbacks run on a CPU. During that of a soft timer interrupts come, and on PREEMPT_RT other
 * threads run: what these wake, the timer doesn't. */
#pragma once

#include "percpu.h"

struct callback {
	u64 due_ns; /* when the timer was to expire; 0: no callback runs */
	u64 timer;
	u64 tid;    /* the thread over which it runs */
};
struct callbacks {
	struct callback hard; /* with interrupts disabled: nothing comes between */
	struct callback soft;
	u64 area; /* see own_area() */
};
struct {
	MAP_UINT(type, MAP_PERCPU_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct callbacks);
} callbacks SEC(".maps");

static ALWAYS_INLINE struct callbacks *own_callbacks(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&callbacks, &zero);
}

SEC("tp_btf/hrtimer_expire_entry") int on_hrtimer_expire_entry(u64 *args)
{
	struct callbacks *own = own_callbacks();
	if (!own)
		return 0;
	struct hrtimer *timer = (struct hrtimer *)args[0];
	int is_soft = field_exists(timer->is_soft) && timer->is_soft;
	struct callback *callback = is_soft ? &own->soft : &own->hard;
	callback->timer = (u64)timer;
	callback->tid = (u32)bpf_get_current_pid_tgid();
	callback->due_ns = timer->_softexpires - timer->base->offset;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit") int on_hrtimer_expire_exit(u64 *args)
{
	struct callbacks *own = own_callbacks();
	if (!own)
		return 0;
	if (own->hard.due_ns && own->hard.timer == args[0])
		own->hard.due_ns = 0;
	else if (own->soft.timer == args[0])
		own->soft.due_ns = 0;
	return 0;
}

/* The callback that runs over the current thread, or that an interrupt has interrupted there; 0: none. */
static ALWAYS_INLINE struct callback *callback_here(struct callbacks *own)
{
	if (!own)
		return 0;
	if (own->hard.due_ns)
		return &own->hard;
	return own->soft.due_ns && own->soft.tid == (u32)bpf_get_current_pid_tgid() ? &own->soft : 0;
}

/* The callback that wakes a thread now; 0: something else does. */
static ALWAYS_INLINE struct callback *callback_that_wakes(void)
{
	struct callbacks *own = own_callbacks();
	struct callback *callback = callback_here(own);
	if (!callback || own->hard.due_ns)
		return callback;
	u32 count = preempt_count(own_area(&own->area, bpf_get_smp_processor_id()), 0);
	return count & HANDLERS ? 0 : callback;
}
