/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* State of each watched thread, and what the ring says about it.
 *
 * trace/watch/kernel.rs reads them. */
#pragma once

#include "kernel.h"
#include "ring.h"
#include "program.h"

/* An entry of the ring. */
enum kind {
	WOKEN = 1, /* it slept, was woken, and runs */
	UNSLEPT,   /* its timer expired before it had gone to sleep */
	STOPPED,   /* it was stopped, and runs: `enum stop`, from when, until when */
	JOB,       /* a job of SCHED_DEADLINE ended: what it used, of what */
	AWAKE,     /* its timer expired while it was awake, and it arms it for another instant */
	INTERVAL,  /* the kernel arms its timer again: which, and at which distance */
};

enum {
	STATE_STOPPED = 4,
	STATE_TRACED = 8,
	STATE_DEAD = 0x80,
};

/* A thread: its counts, then its current state. */
struct watched {
	u64 started_ns; /* distinguishes it from a later one with the same number */
	u64 priority;   /* policy << 32 | the kernel's priority, without priority inheritance */
	char name[16];
	u64 cpu;        /* where it ran last */
	u64 ended;
	u64 wake_ups;   /* wake-ups that were written to the ring */
	u64 switches;   /* to it */
	u64 preempted;  /* from it, involuntary */
	u64 migrations;
	u64 faults[2];      /* minor, major, in its life */
	u64 first_faults[2];/* when it was first seen */
	u64 jobs, late_jobs, worst_job_ns, postponed; /* of SCHED_DEADLINE */
	u64 beyond;     /* sleeps that exceeded the map of calls */
	u64 unseen;     /* sleeps whose end or waking was not recorded */
	u64 unseen_before; /* those since the last that was written to the ring */

	u64 left_ns;    /* when it went to sleep; 0: it didn't */
	u64 call;
	u64 waking_ns;  /* when its waking began; 0: it wasn't woken */
	u64 due_ns;     /* when its timer was to expire; 0: no timer wakes it */
	u64 waking_cpu;
	u64 own_due_ns; /* for when it armed the timer of its own sleep; 0: that woke it, or there was none */
	u64 armed_ns;   /* when it armed it */
	u64 armed_as;   /* in which call; FOR_A_LENGTH */
	u64 armed_for_wake_ns;
	u64 pace;       /* FOR_A_LENGTH << 32, if that is known, and which timer; 0: its own sleep */
	u64 waker, waker_priority;
	char waker_name[16];
	u64 holder, holder_priority; /* of the lock that it waits for */
	char holder_name[16];
	u64 job_deadline; /* on the scheduler's clock; 0: no job runs */
	u64 stopped;      /* `enum stop`: it left stopped, at left_ns */
	u64 sleep_due_ns; /* until when it sleeps; 0: it armed no timer for that since it woke */
	u64 program;      /* the program that it belongs to */
	u64 turn;         /* of that program, if several are watched */
	u64 ran_ns;       /* its CPU time at its last switch under SCHED_DEADLINE; 0: there was none */
	s64 budget_left;  /* what was left of its budget then */
	u64 budget_until; /* and its deadline */
	u64 used_ns;      /* of its budget, by the job that runs */
	u64 job_throttles;
	u64 throttled_ns; /* since when it is throttled; 0: it isn't */
	u64 throttles, throttles_ns, worst_throttle_ns;
	u64 away_ns;      /* when it left its CPU; 0: it didn't, or this is not recorded */
	u64 away_why;     /* `enum why` */
	s64 away_kernel, away_user; /* its stacks then; below 0: none */
	u64 afresh;     /* it was not followed in between: what it waited for then nobody knows */
	u64 killed_by;  /* the signal that ended it, with its program; 0: none */
	u64 demoted_ns; /* since when it has no real-time priority, and is not followed; 0: it has */
};

struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 4096);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct watched);
} threads SEC(".maps");

/* A timer that isn't on a thread's stack: a timerfd, a POSIX timer, by its address; timeouts of an io_uring, each
 * of which has a timer of its own, by the number of the thread that arms them. */
struct object_timer {
	u64 due_ns;   /* 0: it woke the thread */
	u64 armed_ns;
	u64 armed_as; /* in which call; FOR_A_LENGTH */
	u32 tid;      /* who armed it */
	u32 wakes;    /* whether it has woken that thread: the kernel arms timers of its own in any thread's name */
	u64 interval_ns; /* at which the kernel arms it, as reported; 0: it doesn't */
};
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, 4096);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, struct object_timer);
} object_timers SEC(".maps");

/* The kernel's functions that expire a program's timers: a timerfd, a POSIX timer, `setitimer`, a timeout of an
 * io_uring, one of another request, a timerfd or POSIX timer that wakes the machine too. 0: not known. Set before the program is loaded. */
enum { TIMERFD_TIMER, POSIX_TIMER, PROCESS_TIMER, URING_TIMER, TIMER_FUNCTIONS = 6 };
const volatile u64 timer_functions[TIMER_FUNCTIONS] = {};

/* Whether a timer is a program's: the kernel arms timers of its own in any thread's name. */
static ALWAYS_INLINE int is_of_program(struct hrtimer *timer)
{
	u64 function = (u64)timer->function;
#pragma unroll
	for (int at = 0; at < TIMER_FUNCTIONS; at++)
		if (timer_functions[at] && timer_functions[at] == function)
			return 1;
	return 0;
}

/* Only a template for new entries: it is too large for the stack. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct watched);
} blank SEC(".maps");

/* Switches of threads that exceeded the map's size: nothing else is known of these. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} unfollowed SEC(".maps");

static ALWAYS_INLINE struct watched *find(struct task_struct *task)
{
	u32 tid = task->pid;
	return bpf_map_lookup_elem(&threads, &tid);
}

static ALWAYS_INLINE void forget_job(struct watched *thread)
{
	thread->job_deadline = thread->used_ns = thread->job_throttles = thread->throttled_ns = 0;
}

/* The state of the time when its program was watched before is stale. */
static ALWAYS_INLINE void forget_stay(struct watched *thread)
{
	thread->left_ns = thread->waking_ns = thread->due_ns = thread->stopped = 0;
	thread->sleep_due_ns = thread->own_due_ns = thread->ran_ns = thread->away_ns = 0;
	forget_job(thread);
}

static ALWAYS_INLINE void renew(struct watched *thread, struct task_struct *task)
{
	if (program)
		return;
	struct followed *now = followed(task);
	if (!now || thread->turn == now->turn)
		return;
	if (thread->turn) {
		forget_stay(thread);
		thread->afresh = 1;
	}
	thread->turn = now->turn;
}

static NOINLINE struct watched *find_or_make(u32 tid)
{
	struct watched *thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread)
		return thread;
	u32 zero = 0;
	struct watched *empty = bpf_map_lookup_elem(&blank, &zero);
	if (!empty)
		return 0;
	bpf_map_update_elem(&threads, &tid, empty, UPDATE_NOEXIST);
	thread = bpf_map_lookup_elem(&threads, &tid);
	u64 *refused = bpf_map_lookup_elem(&unfollowed, &zero);
	if (!thread && refused)
		__sync_fetch_and_add(refused, 1);
	return thread;
}

static ALWAYS_INLINE void look(struct watched *thread, struct task_struct *task)
{
	thread->priority = (u64)task->policy << 32 | (u32)task->normal_prio;
	thread->program = task->tgid;
	renew(thread, task);
	thread->faults[0] = task->min_flt;
	thread->faults[1] = task->maj_flt;
	if (thread->started_ns != task->start_time) {
		thread->started_ns = task->start_time;
		thread->first_faults[0] = task->min_flt;
		thread->first_faults[1] = task->maj_flt;
	}
	__builtin_memcpy(thread->name, task->comm, sizeof(thread->name));
}

static ALWAYS_INLINE void ends(struct watched *thread, struct task_struct *task, u64 now_ns)
{
	thread->ended = now_ns;
	thread->killed_by = task->exit_code & 0x7f;
}

/* A thread without real-time priority: if it was watched before, the state of that time is stale, and since when
 * it is followed no longer is known. One that ends keeps the priority with which it was watched. */
static ALWAYS_INLINE void demoted(struct task_struct *task, u64 now_ns, int is_dead)
{
	struct watched *thread = is_watched(task) ? find(task) : 0;
	if (!thread || thread->started_ns != task->start_time)
		return;
	forget_stay(thread);
	thread->afresh = 1;
	if (!thread->demoted_ns)
		thread->demoted_ns = now_ns;
	if (is_dead)
		ends(thread, task, now_ns);
	else
		look(thread, task);
}

/* A thread other than the first that calls exec goes on under the number of the first: nothing follows under its
 * own. */
ON(sched_process_exec)
{
	struct task_struct *task = (struct task_struct *)args[0];
	u32 before = args[1];
	struct watched *thread = bpf_map_lookup_elem(&threads, &before);
	if (before != (u32)task->pid && thread && !thread->ended && thread->program == (u32)task->tgid)
		ends(thread, task, bpf_ktime_get_ns());
	return 0;
}
