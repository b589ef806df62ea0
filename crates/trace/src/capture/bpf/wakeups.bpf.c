/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The wake-ups of every real-time thread of the machine: counted in the kernel, by length,
 * and the worst of each CPU kept with the woken thread and the one that delayed it. Data leaves the
 * kernel only when user space reads it, so that the watch can stay on.
 *
 * trace/watch/wakeups.rs reads these maps. */
#include "kernel.h"
#include "callbacks.h"
#include "lengths.h"
#include "runqueue.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before the program is loaded. */
const volatile u64 deadline_ns = 0; /* longer is late; 0: none is */

/* Lengths have a resolution of 1 in 64: the 6 bits below the highest. */
#define PART_BITS 6
#define LENGTHS PLACES(PART_BITS)
#define WORST 16
#define RAN 16

struct task {
	u32 tid;
	u32 priority; /* the kernel's priority, without priority inheritance */
	u64 policy;
	char name[16];
};

struct worst {
	u64 latency_ns;
	u64 at_ns;
	u64 by_timer;
	struct task woken, before;
};

/* The threads that ran last, each with when it began: the last one before the end of a wake-up need
 * not be the one that delayed it. */
struct ran {
	u64 since_ns;
	struct task task;
};

/* State of each CPU. */
struct cpu {
	u64 count, sum_ns, least_ns, most_ns, late;
	/* The maximum since the last read: a reader switches to the other one and clears this one. */
	u64 turn;
	u64 turn_most_ns[2];
	u64 threshold_ns; /* a longer one joins the worst */
	u64 lost;         /* wakings that exceeded the map's size */
	struct worst worst[WORST];
	u64 switches;
	struct ran ran[RAN];
	u64 lengths[LENGTHS];
};

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} by_cpu SEC(".maps");

/* Threads from the start of their waking until they run. Each CPU on which one waits has a thread in the way: the
 * timer's, whose interrupt came late, and each whose run queue it left. */
struct waking {
	u64 from_ns;
	u64 by_timer;
	u64 here_ns;   /* since when on its present CPU */
	u64 longest_ns; /* for which `before` was in the way elsewhere; 0: nobody was */
	struct task before;
};
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, 16384);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct waking);
} wakings SEC(".maps");

#define ON(tracepoint) SEC("tp_btf/" #tracepoint) int on_##tracepoint(u64 *args)

enum { FIRST_ORDINARY_PRIORITY = 100 };

static ALWAYS_INLINE struct cpu *here(u32 *cpu)
{
	*cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&by_cpu, cpu);
}

static ALWAYS_INLINE void describe(struct task *to, struct task_struct *task)
{
	to->tid = task->pid;
	to->priority = task->normal_prio;
	to->policy = task->policy;
	__builtin_memcpy(to->name, task->comm, sizeof(to->name));
}

/* What a thread has waited for on a CPU until now: the thread that had this CPU longest since then, of those
 * that ran before the last `newer` switches. */
static NOINLINE void find_in_the_way(struct cpu *cpu, struct waking *waking, u64 end_ns, u32 newer)
{
	u64 from_ns = waking->here_ns;
	waking->here_ns = end_ns;
	for (u32 back = 1; back <= RAN; back++) {
		u32 at = (cpu->switches - newer - back) & (RAN - 1);
		u64 since_ns = cpu->ran[at].since_ns;
		if (!since_ns || since_ns > end_ns || newer + back > RAN)
			break;
		u64 begin_ns = since_ns > from_ns ? since_ns : from_ns;
		if (end_ns > begin_ns && end_ns - begin_ns > waking->longest_ns) {
			waking->longest_ns = end_ns - begin_ns;
			waking->before = cpu->ran[at].task;
		}
		if (since_ns <= from_ns)
			break;
		end_ns = since_ns;
	}
}

ON(sched_waking)
{
	struct task_struct *task = (struct task_struct *)args[0];
	/* A priority that was only inherited through a lock does not count. */
	if (task->normal_prio >= FIRST_ORDINARY_PRIORITY)
		return 0;
	u32 number, tid = task->pid;
	/* It runs: it had not gone to sleep yet. */
	if ((u32)bpf_get_current_pid_tgid() == tid)
		return 0;
	struct cpu *cpu = here(&number);
	if (!cpu)
		return 0;
	u64 now_ns = bpf_ktime_get_ns();
	struct waking waking = {.from_ns = now_ns, .here_ns = now_ns};
	struct callback *callback = callback_that_wakes();
	if (callback && callback->due_ns <= now_ns) {
		waking.from_ns = waking.here_ns = callback->due_ns;
		waking.by_timer = 1;
		find_in_the_way(cpu, &waking, now_ns, 0);
	}
	if (bpf_map_update_elem(&wakings, &tid, &waking, UPDATE_ANY))
		__sync_fetch_and_add(&cpu->lost, 1);
	return 0;
}

/* Replaces the smallest of the worst. */
static NOINLINE void keep(struct cpu *cpu, struct worst *new)
{
	u32 least = 0;
	u64 least_ns = ~0ULL, next_ns = ~0ULL;
	for (u32 index = 0; index < WORST; index++) {
		u64 latency_ns = cpu->worst[index].latency_ns;
		if (latency_ns < least_ns) {
			next_ns = least_ns;
			least_ns = latency_ns;
			least = index;
		} else if (latency_ns < next_ns) {
			next_ns = latency_ns;
		}
	}
	if (least < WORST)
		cpu->worst[least] = *new;
	cpu->threshold_ns = new->latency_ns < next_ns ? new->latency_ns : next_ns;
}

static ALWAYS_INLINE int switched(u64 preempted, struct task_struct *from, struct task_struct *to)
{
	/* A thread that leaves and does not sleep was not woken, even if a waking began. */
	if (from->normal_prio < FIRST_ORDINARY_PRIORITY && (preempted & 1 || !from->__state)) {
		u32 left = from->pid;
		struct waking *begun = bpf_map_lookup_elem(&wakings, &left);
		if (begun)
			begun->from_ns = 0;
	}
	u32 number, tid = to->pid;
	struct cpu *cpu = here(&number);
	if (!cpu)
		return 0;
	u64 now_ns = bpf_ktime_get_ns();
	/* For every thread except the idle ones, on request. */
	if (from->pid)
		leaves_cpu(from, preempted, now_ns);
	if (to->pid)
		takes_cpu(to, now_ns);
	/* If the priority of a thread rose while it ran, it delayed others with the higher one. */
	struct ran *was = &cpu->ran[(cpu->switches - 1) & (RAN - 1)];
	if (was->task.tid == from->pid && (s32)from->normal_prio < (s32)was->task.priority)
		describe(&was->task, from);
	struct ran *ran = &cpu->ran[cpu->switches++ & (RAN - 1)];
	ran->since_ns = now_ns;
	describe(&ran->task, to);
	if (to->normal_prio >= FIRST_ORDINARY_PRIORITY)
		return 0;
	struct waking *waking = bpf_map_lookup_elem(&wakings, &tid);
	if (!waking || !waking->from_ns)
		return 0;
	u64 latency_ns = now_ns - waking->from_ns;
	u64 by_timer = waking->by_timer;
	waking->from_ns = 0;
	cpu->count++;
	cpu->sum_ns += latency_ns;
	if (cpu->count == 1 || latency_ns < cpu->least_ns)
		cpu->least_ns = latency_ns;
	if (latency_ns > cpu->most_ns)
		cpu->most_ns = latency_ns;
	u32 turn = cpu->turn & 1;
	if (latency_ns > cpu->turn_most_ns[turn])
		cpu->turn_most_ns[turn] = latency_ns;
	if (deadline_ns && latency_ns > deadline_ns)
		cpu->late++;
	u32 at = place(latency_ns, PART_BITS);
	if (at < LENGTHS)
		cpu->lengths[at]++;
	if (latency_ns > cpu->threshold_ns) {
		struct worst new = {.latency_ns = latency_ns, .at_ns = now_ns, .by_timer = by_timer};
		describe(&new.woken, to);
		/* Not the last one, which runs now. */
		find_in_the_way(cpu, waking, now_ns, 1);
		if (waking->longest_ns)
			new.before = waking->before;
		else
			describe(&new.before, from);
		keep(cpu, &new);
	}
	return 0;
}

/* A thread that waits is moved to another CPU. */
ON(sched_migrate_task)
{
	struct task_struct *task = (struct task_struct *)args[0];
	if (task->normal_prio >= FIRST_ORDINARY_PRIORITY)
		return 0;
	u32 tid = task->pid;
	struct waking *waking = bpf_map_lookup_elem(&wakings, &tid);
	if (!waking || !waking->from_ns || !has_queue(task))
		return 0;
	u32 from = task->se.cfs_rq->rq->cpu;
	struct cpu *cpu = bpf_map_lookup_elem(&by_cpu, &from);
	if (cpu)
		find_in_the_way(cpu, waking, bpf_ktime_get_ns(), 0);
	return 0;
}

ON(sched_switch)
{
	return switched(args[0], (struct task_struct *)args[1], (struct task_struct *)args[2]);
}

/* Attached if run queues are measured. */
ON(sched_wakeup)
{
	is_queued((struct task_struct *)args[0], bpf_ktime_get_ns());
	return 0;
}

ON(sched_wakeup_new)
{
	is_queued((struct task_struct *)args[0], bpf_ktime_get_ns());
	return 0;
}
