/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The threads of one program: each thread's events are counted in the kernel, so
 * that no count is lost; each wake-up goes into a ring as well.
 *
 * trace/watch/kernel.rs reads them. */
#include "watched.h"
#include "programs.h"
#include "away.h"
#include "jobs.h"
#include "runqueue.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What stops a thread; 0: nothing does. */
enum stop {
	BY_SIGNAL = 1,
	BY_DEBUGGER,
	BY_FREEZER,
};

/* For a stop that had begun before the watch: its start is not known. */
enum { BEFORE_THE_WATCH = 1 };
/* No system call: the thread went to sleep in a page fault or an interrupt. */
#define NO_CALL 0xffff
/* In a wake-up's call: its timer was armed for a length of time, not for an instant. */
#define FOR_A_LENGTH (1U << 31)
/* A mode of a timer: relative to the moment at which it is armed. */
enum { MODE_RELATIVE = 1 };
/* The timer of a sleep is on the stack of the sleeping thread; the stack is at least this large. */
enum { STACK_BYTES = 16384 };
/* The greatest number that fits into a slot. */
enum { MOST_UNSEEN = 0xffff };

/* The system call that a thread slept in. */
struct call_key {
	u32 tid;
	u32 call; /* its number, and for futexes the operation above it */
};
struct call {
	u64 count;
	u64 total_ns;
	u64 worst_ns;
	u64 worst_at_ns;  /* when the worst one ended */
	u64 by_timer;     /* ended by a timer */
	u64 inversions;   /* ended by, or waited for, a thread of lower priority: a holder, or else a waker */
	u64 other, other_priority; /* the holder or waker of the worst */
	char other_name[16];
	u64 held;         /* whether that was a holder */
};
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 16384);
	MAP_TYPE(key, struct call_key);
	MAP_TYPE(value, struct call);
} calls SEC(".maps");

static ALWAYS_INLINE void wake_up(struct watched *thread, struct lane *lane, u64 now_ns, u32 cpu, u32 tid, u16 kind)
{
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, kind, &turn);
	if (!slot)
		return;
	thread->wake_ups++;
	u64 unseen = thread->unseen_before;
	thread->unseen_before = 0;
	slot->a = (unseen < MOST_UNSEEN ? unseen : MOST_UNSEEN) << 48 | (thread->waking_cpu & 0xffff) << 32 | tid;
	slot->b = thread->due_ns;
	slot->c = thread->waking_ns;
	slot->d = thread->armed_for_wake_ns;
	((u64 *)slot->name)[0] = thread->call << 32 | thread->pace;
	((u64 *)slot->name)[1] = thread->left_ns;
	done(slot, turn);
}

/* A stop that has ended, when the thread was made ready. It is written in the order of the wake-ups, and
 * like them is counted as one that must arrive. */
static ALWAYS_INLINE void was_stopped(struct watched *thread, struct lane *lane, u64 now_ns, u32 cpu, u32 tid)
{
	thread->wake_ups++;
	u64 end_ns = thread->waking_ns ? thread->waking_ns : now_ns;
	record(lane, now_ns, cpu, STOPPED, tid, thread->stopped, thread->left_ns, end_ns);
}

/* What stops a task that leaves its CPU in this state, if that is a stop. */
static ALWAYS_INLINE u64 stop_of(struct task_struct *task, u64 state)
{
	if (state & STATE_STOPPED)
		return BY_SIGNAL;
	if (state & STATE_TRACED)
		return BY_DEBUGGER;
	if (is_frozen(task, state))
		return BY_FREEZER;
	return 0;
}

/* Some kernels show nothing while certain tasks run, for example a hypervisor's agent: neither the
 * interrupt that wakes a thread nor the switch from that task to it. */
static ALWAYS_INLINE void unseen(struct watched *thread)
{
	thread->unseen++;
	thread->unseen_before++;
}

/* The system call that a thread is in, as it leaves the CPU. */
static ALWAYS_INLINE u64 call_of(struct task_struct *task)
{
	struct pt_regs *regs = bpf_task_pt_regs(task);
	if (!regs)
		return NO_CALL;
	s64 number = call_number(regs);
	if (number < 0 || number >= NO_CALL)
		return NO_CALL;
	if (number == CALL_FUTEX)
		number |= (SECOND_ARGUMENT(regs) & 0x7f) << 16;
	return number;
}

/* The holder of the lock that a thread waits for, if the lock has priority inheritance. */
static ALWAYS_INLINE void find_holder(struct watched *thread, struct task_struct *task)
{
	thread->holder = 0;
	struct task_struct *holder = holder_of(task);
	if (!holder)
		return;
	u32 tid = 0, policy = 0;
	s32 priority = 0;
	read_kernel(&tid, &holder->pid);
	read_kernel(&policy, &holder->policy);
	read_kernel(&priority, &holder->normal_prio);
	bpf_probe_read_kernel_str(thread->holder_name, sizeof(thread->holder_name), &holder->comm);
	thread->holder = tid;
	thread->holder_priority = (u64)policy << 32 | (u32)priority;
}

static ALWAYS_INLINE void slept(struct watched *thread, u32 tid, u64 now_ns)
{
	struct call_key key = {.tid = tid, .call = thread->call};
	struct call *call = bpf_map_lookup_elem(&calls, &key);
	if (!call) {
		struct call empty = {};
		bpf_map_update_elem(&calls, &key, &empty, UPDATE_NOEXIST);
		call = bpf_map_lookup_elem(&calls, &key);
		if (!call) {
			thread->beyond++;
			return;
		}
	}
	u64 length_ns = now_ns - thread->left_ns;
	call->count++;
	call->total_ns += length_ns;
	if (thread->due_ns)
		call->by_timer++;
	u32 own = (u32)thread->priority;
	u32 other = thread->holder ? (u32)thread->holder_priority : (u32)thread->waker_priority;
	if ((thread->holder || (!thread->due_ns && thread->waker)) && (s32)other > (s32)own)
		call->inversions++;
	if (length_ns >= call->worst_ns) {
		call->worst_ns = length_ns;
		call->worst_at_ns = now_ns;
		call->held = thread->holder != 0;
		if (thread->holder) {
			call->other = thread->holder;
			call->other_priority = thread->holder_priority;
			__builtin_memcpy(call->other_name, thread->holder_name, 16);
		} else if (thread->due_ns) {
			call->other = 0;
		} else {
			call->other = thread->waker;
			call->other_priority = thread->waker_priority;
			__builtin_memcpy(call->other_name, thread->waker_name, 16);
		}
	}
}

static ALWAYS_INLINE void left(u64 *ctx, struct task_struct *task, u64 preempted, u64 state, struct lane *lane, u64 now_ns, u32 cpu)
{
	if (!is_counted(task))
		return;
	struct watched *thread = find_or_make(task->pid);
	if (!thread)
		return;
	look(thread, task);
	thread->cpu = cpu + 1; /* also where it was not seen to come */
	int sleeps = !(preempted & 1) && state;
	u64 call = call_of(task);
	u64 stop = sleeps ? stop_of(task, state) : 0;
	int yields = !(preempted & 1) && !state && (call & 0xffff) == CALL_YIELD;
	if (task->policy == SCHED_DEADLINE)
		budget_used(thread, task);
	if (stop)
		forget_job(thread); /* a stopped job is neither late nor in time */
	else if (task->policy == SCHED_DEADLINE && (sleeps || yields))
		job_ends(thread, task, lane, now_ns, cpu);
	else if (task->policy == SCHED_DEADLINE && task->dl.runtime <= 0)
		throttled(thread, now_ns);
	if (!(state & STATE_DEAD))
		goes_away(ctx, thread, why_away(thread, sleeps, state, stop, yields), now_ns);
	/* It leaves again, and the switch to it was not recorded: to sleep, preempted or ended. */
	if (thread->left_ns) {
		unseen(thread);
		thread->left_ns = thread->waking_ns = thread->due_ns = thread->stopped = 0;
	}
	if (state & STATE_DEAD) {
		thread->ended = now_ns;
		return;
	}
	if (!sleeps) {
		thread->preempted++;
		/* Awake: the waking before this one is settled. If it is about to sleep, its timer may expire
		 * before it runs again. */
		if (!state)
			thread->waking_ns = thread->due_ns = 0;
		return;
	}
	/* Its timer expired on another CPU before it slept, and it continued to run. */
	if (thread->waking_ns && thread->due_ns)
		unseen(thread);
	thread->waking_ns = thread->due_ns = 0;
	thread->left_ns = now_ns;
	thread->stopped = stop;
	thread->call = call;
	find_holder(thread, task);
}

static ALWAYS_INLINE void came(struct task_struct *task, struct lane *lane, u64 now_ns, u32 cpu)
{
	if (!is_watched(task))
		return;
	if (!is_counted(task)) {
		/* It may have been watched before: the state of that time is stale. */
		struct watched *before = find(task);
		if (before)
			forget_stay(before);
		return;
	}
	u32 tid = task->pid;
	struct watched *thread = find_or_make(tid);
	if (!thread)
		return;
	look(thread, task);
	comes_back(thread, tid, now_ns);
	thread->switches++;
	if (thread->cpu && thread->cpu != cpu + 1)
		thread->migrations++;
	thread->cpu = cpu + 1;
	if (task->policy == SCHED_DEADLINE)
		job_begins(thread, task, now_ns);
	else
		thread->ran_ns = 0;
	if (thread->left_ns && thread->stopped) {
		was_stopped(thread, lane, now_ns, cpu, tid);
	} else if (thread->left_ns && thread->waking_ns) {
		slept(thread, tid, now_ns);
		wake_up(thread, lane, now_ns, cpu, tid, WOKEN);
	} else if (thread->waking_ns && thread->due_ns) {
		/* Preempted before it slept, and its timer expired meanwhile. */
		thread->call = call_of(task);
		wake_up(thread, lane, now_ns, cpu, tid, UNSLEPT);
	} else if (thread->left_ns) {
		/* It runs again, and no waking was recorded. */
		unseen(thread);
	}
	if (thread->left_ns)
		thread->sleep_due_ns = 0;
	thread->left_ns = 0;
	thread->stopped = 0;
	thread->waking_ns = 0;
	thread->due_ns = 0;
	thread->holder = 0;
}

static ALWAYS_INLINE int switched(u64 *ctx, u64 preempted, struct task_struct *from, struct task_struct *to, u64 state)
{
	/* Nearly all switches are between other threads. */
	if (!is_watched(from) && !is_watched(to))
		return 0;
	HERE;
	left(ctx, from, preempted, state, lane, now_ns, cpu);
	came(to, lane, now_ns, cpu);
	if (is_counted(from))
		leaves_cpu(from, preempted, now_ns);
	if (is_counted(to))
		takes_cpu(to, now_ns);
	return 0;
}

SEC("tp_btf/sched_switch") int on_sched_switch(u64 *args)
{
	return switched(args, args[0], (struct task_struct *)args[1], (struct task_struct *)args[2], args[3]);
}

/* Kernels before 5.18 don't pass the state. */
SEC("tp_btf/sched_switch") int on_sched_switch_of_old(u64 *args)
{
	struct task_struct *from = (struct task_struct *)args[1];
	return switched(args, args[0], from, (struct task_struct *)args[2], from->__state);
}

/* The timer whose callback this CPU runs, and when it was due: used if it wakes a thread. */
ON(hrtimer_expire_entry)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct lane *lane = lane_of(cpu);
	if (!lane)
		return 0;
	struct hrtimer *timer = (struct hrtimer *)args[0];
	lane->due_ns = timer->_softexpires - timer->base->offset;
	lane->caught_ns = (u64)timer;
	return 0;
}

ON(hrtimer_expire_exit)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct lane *lane = lane_of(cpu);
	if (lane)
		lane->due_ns = 0;
	return 0;
}

/* A thread arms a timer: that is what it waits for if it then sleeps. */
ON(hrtimer_start)
{
	if (!is_watched(bpf_get_current_task_btf()))
		return 0;
	HERE;
	/* Neither the tick nor another timer that an interrupt re-arms. */
	if (lane->due_ns)
		return 0;
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct watched *thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread) {
		thread->timer = args[0];
		thread->armed_ns = now_ns;
		thread->armed_relative = args[1] & MODE_RELATIVE;
		/* Its own sleep; the scheduler may arm others after it. The pointer is read back as a number: the
		 * verifier of 6.1 allows no arithmetic on it. */
		struct hrtimer *timer = (struct hrtimer *)args[0];
		u64 address = *(volatile u64 *)&thread->timer;
		if (address - (u64)bpf_get_current_task_btf()->stack < STACK_BYTES)
			thread->sleep_due_ns = timer->_softexpires - timer->base->offset;
	}
	return 0;
}

/* Since 6.1 a freezer leaves a thread asleep and defers its wake-ups: the wake-up that its timer was
 * armed for fell into the freeze. */
static ALWAYS_INLINE void thawed(struct watched *thread, struct task_struct *task, u64 now_ns)
{
	if (!thread->left_ns || thread->stopped || !(task->__state & STATE_FROZEN))
		return;
	if (thread->sleep_due_ns < thread->left_ns || thread->sleep_due_ns >= now_ns)
		return;
	thread->stopped = BY_FREEZER;
	thread->left_ns = thread->sleep_due_ns;
	is_held(thread, task->pid, thread->sleep_due_ns);
}

/* A thread that was stopped before it was first seen. */
static ALWAYS_INLINE struct watched *meet_stopped(struct task_struct *task)
{
	u64 stop = stop_of(task, task->__state & (STATE_STOPPED | STATE_TRACED | STATE_FROZEN));
	if (!stop || !is_counted(task))
		return 0;
	struct watched *thread = find_or_make(task->pid);
	if (!thread)
		return 0;
	look(thread, task);
	thread->stopped = stop;
	thread->left_ns = BEFORE_THE_WATCH;
	return thread;
}

ON(sched_waking)
{
	struct task_struct *task = (struct task_struct *)args[0];
	if (!is_watched(task))
		return 0;
	struct watched *thread = find(task);
	if (!thread)
		thread = meet_stopped(task);
	if (!thread)
		return 0;
	renew(thread, task);
	HERE;
	thawed(thread, task, now_ns);
	thread->waking_ns = now_ns;
	thread->waking_cpu = cpu;
	thread->due_ns = lane->due_ns;
	int armed = lane->due_ns && lane->caught_ns == thread->timer;
	thread->armed_for_wake_ns = armed ? thread->armed_ns : 0;
	/* A timer that isn't on its stack is an object that it may wait for in any call. */
	thread->pace = lane->caught_ns - (u64)task->stack < STACK_BYTES ? 0 : (u32)(lane->caught_ns >> 3) | 1;
	if (armed && thread->armed_relative)
		thread->pace |= (u64)FOR_A_LENGTH << 32;
	struct task_struct *waker = bpf_get_current_task_btf();
	thread->waker = waker->pid;
	thread->waker_priority = (u64)waker->policy << 32 | (u32)waker->normal_prio;
	__builtin_memcpy(thread->waker_name, waker->comm, sizeof(thread->waker_name));
	/* An interrupt over the thread itself: it had not gone to sleep yet, and won't. */
	if (waker->pid == task->pid && thread->due_ns && is_counted(task)) {
		thread->call = call_of(task);
		wake_up(thread, lane, now_ns, cpu, task->pid, UNSLEPT);
		thread->waking_ns = 0;
		thread->due_ns = 0;
	}
	return 0;
}

/* Attached if run queues are measured. */
ON(sched_wakeup)
{
	struct task_struct *task = (struct task_struct *)args[0];
	if (is_counted(task))
		is_queued(task, bpf_ktime_get_ns());
	return 0;
}

ON(sched_wakeup_new)
{
	struct task_struct *task = (struct task_struct *)args[0];
	if (is_counted(task))
		is_queued(task, bpf_ktime_get_ns());
	return 0;
}
