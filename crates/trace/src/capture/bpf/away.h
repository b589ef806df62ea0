/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Where threads are while they are off the CPU: the stacks with which they left it, and for how
 * long. The kernel side sums them; what exceeds a map's size is counted.
 *
 * trace/watch/away.rs reads these maps. */
#pragma once

#include "watched.h"

/* Set before the program is loaded, with the sizes of the maps. */
const volatile u32 off_cpu = 0;

/* Why a thread is off the CPU. */
enum why {
	ASLEEP = 1,
	UNINTERRUPTIBLE,
	RUNNABLE,  /* preempted */
	THROTTLED, /* its budget under SCHED_DEADLINE is used up */
	HELD,      /* stopped, traced or frozen */
	YIELDED,   /* sched_yield: under SCHED_DEADLINE until the next period */
};

/* AWAY_FRAMES, a compiler flag, is the greatest depth of a stack: the kernel refuses a map for more than
 * kernel.perf_event_max_stack. 0: no stacks are taken. */
#if AWAY_FRAMES
struct away_stack {
	u64 frames[AWAY_FRAMES];
};
struct {
	MAP_UINT(type, MAP_STACK_TRACE);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct away_stack);
} away_stacks SEC(".maps");
#endif

struct away_key {
	u32 tid;
	u32 why;
	s32 kernel;
	s32 user;
};
struct away {
	u64 count, total_ns, longest_ns, longest_at_ns;
};
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, struct away_key);
	MAP_TYPE(value, struct away);
} aways SEC(".maps");

/* Times that exceeded the map, and those whose stack's slot was taken by another stack. */
struct away_lost {
	u64 count, total_ns, stackless;
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct away_lost);
} away_lost SEC(".maps");

enum { USER_STACK = 1 << 8 };
/* -EEXIST: two stacks have the same slot. */
enum { PLACE_TAKEN = -17 };
enum { NO_STACK = -1 };

static ALWAYS_INLINE u64 why_away(struct watched *thread, int sleeps, u64 state, u64 stop, int yields)
{
	if (stop)
		return HELD;
	if (sleeps)
		return state & STATE_INTERRUPTIBLE ? ASLEEP : UNINTERRUPTIBLE;
	if (yields)
		return YIELDED;
	return thread->throttled_ns ? THROTTLED : RUNNABLE;
}

static ALWAYS_INLINE void goes_away(u64 *ctx, struct watched *thread, u64 why, u64 now_ns)
{
	if (!off_cpu)
		return;
	thread->away_ns = now_ns;
	thread->away_why = why;
#if AWAY_FRAMES
	thread->away_kernel = bpf_get_stackid(ctx, &away_stacks, 0);
	thread->away_user = bpf_get_stackid(ctx, &away_stacks, USER_STACK);
#else
	thread->away_kernel = thread->away_user = NO_STACK;
#endif
}

static ALWAYS_INLINE void comes_back(struct watched *thread, u32 tid, u64 now_ns)
{
	if (!off_cpu || !thread->away_ns)
		return;
	u64 length_ns = now_ns - thread->away_ns;
	thread->away_ns = 0;
	struct away_key key = {
		.tid = tid,
		.why = thread->away_why,
		.kernel = thread->away_kernel < 0 ? -1 : thread->away_kernel,
		.user = thread->away_user < 0 ? -1 : thread->away_user,
	};
	u32 zero = 0;
	struct away_lost *lost = bpf_map_lookup_elem(&away_lost, &zero);
	if (lost && (thread->away_kernel == PLACE_TAKEN || thread->away_user == PLACE_TAKEN))
		__sync_fetch_and_add(&lost->stackless, 1);
	struct away *away = bpf_map_lookup_elem(&aways, &key);
	if (!away) {
		struct away empty = {};
		bpf_map_update_elem(&aways, &key, &empty, UPDATE_NOEXIST);
		away = bpf_map_lookup_elem(&aways, &key);
	}
	if (!away) {
		if (lost) {
			__sync_fetch_and_add(&lost->count, 1);
			__sync_fetch_and_add(&lost->total_ns, length_ns);
		}
		return;
	}
	away->count++;
	away->total_ns += length_ns;
	if (length_ns >= away->longest_ns) {
		away->longest_ns = length_ns;
		away->longest_at_ns = now_ns;
	}
}

/* It slept until then and is frozen from then on: two times off the CPU at the same place. */
static ALWAYS_INLINE void is_held(struct watched *thread, u32 tid, u64 since_ns)
{
	if (!off_cpu || !thread->away_ns || since_ns < thread->away_ns)
		return;
	comes_back(thread, tid, since_ns);
	thread->away_ns = since_ns;
	thread->away_why = HELD;
}
