/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The threads of one program: each thread's events are counted in the kernel, so
 * that no count is lost; each wake-up goes into a ring as well.
 *
 * trace/watch/kernel.rs reads them. */
#include "watched.h"
#include "programs.h"
#include "away.h"
#include "callbacks.h"
#include "intervals.h"
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
/* io_uring_enter, on every processor. */
#define CALL_URING 426
/* No system call: the thread went to sleep in a page fault or an interrupt. */
#define NO_CALL 0xffff
/* In a wake-up's call: its timer was armed for a length of time, not for an instant. */
#define FOR_A_LENGTH (1U << 31)
/* The kernel armed it again for the next period when the thread took the instants that had passed: it read a
 * timerfd, or a signal was delivered. */
#define REARMED (1U << 30)
/* The timer has never woken the thread, which may not wait for it. */
#define UNSURE (1U << 29)
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

/* Whether it is followed again since the last entry; above the CPU. */
static ALWAYS_INLINE u64 afresh_of(struct watched *thread)
{
	u64 afresh = thread->afresh;
	thread->afresh = 0;
	return (afresh & 1) << 47;
}

/* Those since the last entry of the thread. */
static ALWAYS_INLINE u64 unseen_of(struct watched *thread)
{
	u64 unseen = thread->unseen_before;
	thread->unseen_before = 0;
	return unseen < MOST_UNSEEN ? unseen : MOST_UNSEEN;
}

/* It was met when it was made ready: when it had gone to sleep is not known. */
static ALWAYS_INLINE int slept_before(struct watched *thread)
{
	return thread->left_ns == thread->waking_ns;
}

static ALWAYS_INLINE void wake_up(struct watched *thread, struct lane *lane, u64 now_ns, u32 cpu, u32 tid, u16 kind)
{
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, kind, &turn);
	if (!slot)
		return;
	thread->wake_ups++;
	slot->a = unseen_of(thread) << 48 | afresh_of(thread) | (thread->waking_cpu & 0x7fff) << 32 | tid;
	slot->b = thread->due_ns;
	slot->c = thread->waking_ns;
	slot->d = thread->armed_for_wake_ns;
	((u64 *)slot->name)[0] = thread->call << 32 | thread->pace;
	((u64 *)slot->name)[1] = slept_before(thread) ? 0 : thread->left_ns;
	done(slot, turn);
}

/* An instant passed while the thread was awake, and now it arms the timer for the next: it has come back for
 * it, if only now. */
static ALWAYS_INLINE void passed_awake(struct watched *thread, struct lane *lane, u64 now_ns, u32 cpu, u32 tid,
				       u64 due_ns, u64 armed_ns, u64 next_ns, u64 call, u64 timer)
{
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, AWAKE, &turn);
	if (!slot)
		return;
	thread->wake_ups++;
	slot->a = unseen_of(thread) << 48 | afresh_of(thread) | (u64)(cpu & 0x7fff) << 32 | tid;
	slot->b = due_ns;
	slot->c = now_ns;
	slot->d = armed_ns;
	((u64 *)slot->name)[0] = call << 32 | timer;
	((u64 *)slot->name)[1] = next_ns;
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

/* A waking may begin while its thread leaves the CPU: the waker finds it on no run queue, and waits for the end of
 * the switch. The thread leaves with interrupts disabled, so that this takes no longer, except on a virtual machine
 * that is off its own processor; an older waking had found the thread awake. */
enum { LONGEST_CROSSING_NS = 1000000 };

/* It has run since what is known of it: the switch to it was not recorded, or its timer expired on another CPU
 * before it slept, and it continued to run. */
static ALWAYS_INLINE void continued(struct watched *thread)
{
	thread->stopped = 0;
	/* Nothing is written where nothing is known: a waking may begin on another CPU at this moment. */
	if (!thread->left_ns && !thread->waking_ns)
		return;
	if (thread->left_ns || (thread->waking_ns && thread->due_ns))
		unseen(thread);
	thread->left_ns = thread->waking_ns = thread->due_ns = 0;
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
	if (!is_counted(task)) {
		demoted(task, now_ns, (state & STATE_DEAD) != 0);
		return;
	}
	struct watched *thread = find_or_make(task->pid);
	if (!thread)
		return;
	/* The first thread ends under the number of another one that has called exec: this one's ends. */
	if (state & STATE_DEAD && thread->started_ns && thread->started_ns != task->start_time)
		return ends(thread, task, now_ns);
	look(thread, task);
	thread->demoted_ns = 0;
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
	int dies = (state & STATE_DEAD) != 0;
	u64 since_ns = thread->left_ns ? 0 : thread->waking_ns;
	/* The waker may have read the clock after this CPU did. */
	if (!sleeps || stop || dies || !since_ns || (s64)(now_ns - since_ns) > LONGEST_CROSSING_NS)
		continued(thread);
	if (dies) {
		ends(thread, task, now_ns);
		return;
	}
	if (!sleeps) {
		thread->preempted++;
		return;
	}
	thread->left_ns = now_ns;
	thread->stopped = stop;
	thread->call = call;
	find_holder(thread, task);
}

static ALWAYS_INLINE void came(struct task_struct *task, struct lane *lane, u64 now_ns, u32 cpu)
{
	if (!is_counted(task)) {
		demoted(task, now_ns, 0);
		return;
	}
	u32 tid = task->pid;
	struct watched *thread = find_or_make(tid);
	if (!thread)
		return;
	look(thread, task);
	thread->demoted_ns = 0;
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
		if (!slept_before(thread))
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

/* A thread arms a timer: that is what it waits for if it then sleeps. */
ON(hrtimer_start)
{
	if (!is_watched(bpf_get_current_task_btf()))
		return 0;
	HERE;
	/* Neither the tick nor another timer that an interrupt re-arms. */
	if (callback_here(own_callbacks()))
		return 0;
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct watched *thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!is_counted(task))
		return 0;
	thread->demoted_ns = 0;
	struct hrtimer *timer = (struct hrtimer *)args[0];
	/* Stored and read back it is a number: the verifier allows no arithmetic on the pointer. */
	lane->caught_ns = args[0];
	u64 address = *(volatile u64 *)&lane->caught_ns;
	int on_stack = address - (u64)task->stack < STACK_BYTES, of_program = is_of_program(timer);
	/* The kernel arms others while the thread sleeps: in an interrupt over it, and in its name as it leaves its
	 * CPU, for example a virtual timer of KVM on arm64. */
	if (on_stack || of_program)
		continued(thread);
	u64 next_ns = timer->_softexpires - timer->base->offset;
	u64 armed_as = call_of(task) | (args[1] & MODE_RELATIVE ? FOR_A_LENGTH : 0);
	if (on_stack) {
		/* A retry after a signal is for the same instant, and a wake-up that was not seen is counted as that. */
		u64 due_ns = thread->own_due_ns;
		if (due_ns && due_ns <= now_ns && due_ns != next_ns && !thread->unseen_before)
			passed_awake(thread, lane, now_ns, cpu, tid, due_ns, thread->armed_ns, next_ns,
				     thread->armed_as, 0);
		thread->own_due_ns = thread->sleep_due_ns = next_ns;
		thread->armed_ns = now_ns;
		thread->armed_as = armed_as;
		return 0;
	}
	u32 call = armed_as & 0xffff;
	/* The scheduler's: it arms its own as the thread goes to sleep. */
	if (call == CALL_URING && timer_functions[URING_TIMER] && !of_program)
		return 0;
	if (call == CALL_URING)
		address = tid;
	else if (call != CALL_TIMERFD_SETTIME && call != CALL_TIMER_SETTIME && call != CALL_SETITIMER && call != CALL_ALARM)
		armed_as |= REARMED;
	struct object_timer *object = bpf_map_lookup_elem(&object_timers, &address);
	if (!object || object->tid != tid || object->armed_ns < thread->started_ns) {
		struct object_timer first = {.due_ns = next_ns, .armed_ns = now_ns, .armed_as = armed_as, .tid = tid};
		bpf_map_update_elem(&object_timers, &address, &first, UPDATE_ANY);
		return 0;
	}
	if (armed_as & REARMED)
		repeats(thread, object, (u64)timer->function, address, lane, now_ns, cpu);
	int passed = object->due_ns && object->due_ns <= now_ns && object->due_ns != next_ns;
	if (passed && (object->wakes || of_program))
		passed_awake(thread, lane, now_ns, cpu, tid, object->due_ns, object->armed_ns, next_ns,
			     (object->armed_as & FOR_A_LENGTH) | (armed_as & ~FOR_A_LENGTH) | (object->wakes ? 0 : UNSURE),
			     (u32)(address >> 3) | 1);
	object->due_ns = next_ns;
	object->armed_ns = now_ns;
	object->armed_as = armed_as;
	return 0;
}

/* A timer that is stopped before its time; what is called so at its time is its expiry. */
ON(hrtimer_cancel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!is_watched(task))
		return 0;
	u32 cpu = bpf_get_smp_processor_id();
	struct lane *lane = lane_of(cpu);
	if (!lane || callback_here(own_callbacks()))
		return 0;
	lane->caught_ns = args[0];
	u64 address = *(volatile u64 *)&lane->caught_ns;
	struct object_timer *object = bpf_map_lookup_elem(&object_timers, &address);
	if (object && object->tid == (u32)task->pid && object->due_ns > bpf_ktime_get_ns())
		object->due_ns = 0;
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

/* A thread that went to sleep before it was first seen: it may not run again. */
static ALWAYS_INLINE struct watched *meet_asleep(struct task_struct *task)
{
	if (task->on_rq || !is_counted(task))
		return 0;
	struct watched *thread = find_or_make(task->pid);
	if (!thread)
		return 0;
	look(thread, task);
	thread->call = call_of(task);
	return thread;
}

/* Which timer wakes the thread, and when and how it was armed. */
static ALWAYS_INLINE void expired(struct watched *thread, struct task_struct *task, struct callback *callback)
{
	thread->armed_for_wake_ns = thread->pace = 0;
	if (!callback)
		return;
	u64 address = callback->timer, own = task->pid, how;
	if (address - (u64)task->stack < STACK_BYTES) {
		/* Its instant is another one by now if its clock was set meanwhile. */
		if (!thread->own_due_ns)
			return;
		thread->armed_for_wake_ns = thread->armed_ns;
		how = thread->armed_as & FOR_A_LENGTH;
		thread->own_due_ns = 0;
	} else {
		/* An object that it may wait for in any call. */
		thread->pace = (u32)(address >> 3) | 1;
		struct object_timer *object = bpf_map_lookup_elem(&object_timers, &address);
		if (!object) {
			object = bpf_map_lookup_elem(&object_timers, &own);
			if (!object || object->due_ns != callback->due_ns)
				return;
			thread->pace = (u32)(own >> 3) | 1;
		}
		if (object->tid != task->pid || !object->due_ns)
			return;
		thread->armed_for_wake_ns = object->armed_ns;
		how = object->armed_as & (FOR_A_LENGTH | REARMED);
		object->due_ns = 0;
		object->wakes = 1;
	}
	thread->pace |= how << 32;
}

/* A timer that one thread arms for another is not one that passes while the first is awake. */
static ALWAYS_INLINE void taken_by(struct task_struct *task, struct callback *callback)
{
	if (!callback)
		return;
	u64 address = callback->timer;
	struct object_timer *object = bpf_map_lookup_elem(&object_timers, &address);
	if (object && !object->wakes && object->tid != (u32)task->pid)
		object->due_ns = 0;
}

ON(sched_waking)
{
	struct task_struct *task = (struct task_struct *)args[0];
	if (!is_watched(task))
		return 0;
	struct callback *callback = callback_that_wakes();
	taken_by(task, callback);
	struct watched *thread = find(task);
	int known = thread != 0;
	if (!known)
		thread = meet_stopped(task);
	if (!thread)
		thread = meet_asleep(task);
	if (!thread)
		return 0;
	renew(thread, task);
	HERE;
	if (!is_counted(task)) {
		expired(thread, task, callback);
		demoted(task, now_ns, 0);
		return 0;
	}
	thread->demoted_ns = 0;
	/* The waking before this one found the thread awake, or the thread has run since and nothing showed it. What
	 * is read once may change on another CPU, where the thread may leave at this moment. */
	u64 before_ns = thread->waking_ns, left_ns = *(volatile u64 *)&thread->left_ns;
	if (before_ns && left_ns && left_ns <= before_ns)
		continued(thread);
	else if (before_ns && thread->due_ns)
		unseen(thread);
	if (!known && !thread->stopped)
		thread->left_ns = now_ns; /* see slept_before() */
	thawed(thread, task, now_ns);
	thread->waking_ns = now_ns;
	thread->waking_cpu = cpu;
	thread->due_ns = callback ? callback->due_ns : 0;
	expired(thread, task, callback);
	struct task_struct *waker = bpf_get_current_task_btf();
	struct callbacks *own = own_callbacks();
	/* An interrupt wakes it, over a thread that has nothing to do with that. */
	thread->waker = own && in_interrupt(&own->area, cpu) ? 0 : waker->pid;
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
