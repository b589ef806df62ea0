/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The flight recorder: what the kernel does on the probes' CPUs, in a ring for each CPU that
 * is overwritten continuously. It wakes no thread and takes no lock; user space reads the rings.
 * Only where a thread begins or executes a program does it copy more than a few words.
 *
 * capture/slot.rs decodes the slots. */
#include "kernel.h"
#include "origins.h"
#include "percpu.h"
#include "ring.h"
#include "stacks.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* stacks.h and stops.h define further kinds. */
enum kind {
	VECTOR_ENTRY = 1,
	VECTOR_EXIT,
	HANDLER_ENTRY,
	HANDLER_EXIT,
	SOFTIRQ_ENTRY,
	SOFTIRQ_EXIT,
	TIMER_START,
	TIMER_EXPIRE,
	TIMER_DONE, /* not recorded: the next callback or the end of the interrupt implies it */
	WAKING,
	SWITCH,
	MIGRATE,
	NMI,
	IDLE,
	CALL_ENTRY,
	CALL_EXIT,
	WORK_START,
	LOCK_WAIT,
	LOCK_DONE,
	FAULT,
	RENAME = 22,
	CALL_SENT = 24,
};

enum vector { LOCAL_TIMER, RESCHEDULE, CALL_FUNCTION, CALL_FUNCTION_SINGLE, IRQ_WORK, PLATFORM, THERMAL, THRESHOLD };

/* Threads that are waited for, by number, and when each was last made ready by something other than a
 * timer that it armed. */
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 1024);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} targets SEC(".maps");

/* Fires when a target is late, to show what delays it. */
struct sentinel {
	struct bpf_timer timer;
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct sentinel);
} sentinels SEC(".maps");

/* Set before the program is loaded. */
const volatile u32 cpus = 1;
const volatile u32 several = 0;      /* more than one target on a CPU */
const volatile u32 all_wakings = 0;  /* of every thread: to find out what a target waited for */
const volatile u64 threshold_ns = 0; /* how late a target must be for an interrupt to take a stack; 0: never */
const volatile u32 sentinel_on = 0;
/* Offsets in a CPU's per-CPU area, besides those of percpu.h; 0: not known. */
const volatile u64 irq_regs_at = 0;
const volatile u64 steal_at = 0;

static ALWAYS_INLINE int is_target(struct lane *lane, u32 tid)
{
	if (!several)
		return tid && lane->target == tid;
	return bpf_map_lookup_elem(&targets, &tid) != 0;
}

/* Since when a target was ready that is switched to on this CPU now. */
static ALWAYS_INLINE u64 ready_since(struct lane *lane, u32 tid)
{
	if (lane->due_ns)
		return lane->due_ns;
	u64 *ready_ns = bpf_map_lookup_elem(&targets, &tid);
	return ready_ns ? *ready_ns : 0;
}

#include "interrupts.h"

/* A target arms the timer that will wake it. */
ON(hrtimer_start)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct lane *lane = lane_of(cpu);
	if (!lane || !lane->mask || lane->arming)
		return 0;
	u32 tid = current_tid();
	if (!is_target(lane, tid))
		return 0;
	/* An interrupt or a softirq arms timers that are not the interrupted thread's: the tick re-arms
	 * itself this way. */
	if (lane->interrupted == tid || lane->served == tid)
		return 0;
	u64 now_ns = bpf_ktime_get_ns();
	struct hrtimer *timer = (struct hrtimer *)args[0];
	u64 expires_ns = timer->node.expires;
	lane->due_ns = expires_ns;
	RECORD(TIMER_START, timer, expires_ns, tid, 0);
	return 0;
}

ON(hrtimer_expire_entry)
{
	HERE;
	struct hrtimer *timer = (struct hrtimer *)args[0];
	RECORD(TIMER_EXPIRE, timer, timer->function, timer->node.expires, 0);
	return 0;
}

/* What happens to a target on a CPU that isn't recorded goes to the lane of the others. */
static ALWAYS_INLINE struct lane *lane_or_others(u32 cpu)
{
	struct lane *lane = lane_of(cpu);
	if (lane && lane->mask)
		return lane;
	return lane_of(cpus);
}

ON(sched_waking)
{
	struct task_struct *task = (struct task_struct *)args[0];
	u32 tid = task->pid;
	u32 cpu = bpf_get_smp_processor_id();
	struct lane *lane = lane_or_others(cpu);
	if (!lane || !lane->mask)
		return 0;
	/* The timer that it armed gives the instant: no lookup is needed. */
	u64 *ready_ns = 0;
	if (lane->target != tid || !lane->due_ns) {
		ready_ns = bpf_map_lookup_elem(&targets, &tid);
		if (!ready_ns && !all_wakings)
			return 0;
	}
	u64 now_ns = bpf_ktime_get_ns();
	if (ready_ns)
		*ready_ns = now_ns;
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, WAKING, &turn);
	if (!slot)
		return 0;
	slot->a = tid;
	slot->b = 0;
	/* Not by the timer that it armed: a bill may need the waker. */
	struct lane *own = lane_of(cpu);
	if ((all_wakings || !lane->due_ns) && own && !in_interrupt(&own->area, cpu)) {
		struct task_struct *waker = bpf_get_current_task_btf();
		slot->b = (u32)waker->pid;
		slot->c = (u64)waker->policy << 32 | (u16)waker->normal_prio;
		__builtin_memcpy(slot->name, waker->comm, sizeof(slot->name));
	}
	done(slot, turn);
	return 0;
}

ON(sched_migrate_task)
{
	struct task_struct *task = (struct task_struct *)args[0];
	u32 tid = task->pid;
	if (!bpf_map_lookup_elem(&targets, &tid))
		return 0;
	u32 cpu = bpf_get_smp_processor_id();
	struct lane *lane = lane_or_others(cpu);
	if (!lane || !lane->mask)
		return 0;
	u64 now_ns = bpf_ktime_get_ns();
	RECORD(MIGRATE, tid, (u32)args[1], 0, 0);
	return 0;
}

/* A thread changes its name, mostly by exec, and continues: no switch shows it. */
ON(task_rename)
{
	struct task_struct *task = (struct task_struct *)args[0];
	u32 tid = task->pid;
	if (tid != current_tid())
		return 0;
	HERE;
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, RENAME, &turn);
	if (!slot)
		return 0;
	slot->a = tid;
	slot->c = (u64)task->policy << 32 | (u16)task->prio;
	bpf_probe_read_kernel_str(slot->name, sizeof(slot->name), (void *)args[1]);
	done(slot, turn);
	return 0;
}

/* A futex, in the flags of a lock: a bit beyond those of the kernel. */
enum { BY_FUTEX = 1 << 16 };

static ALWAYS_INLINE void name_holder(struct slot *slot, struct task_struct *task)
{
	u32 holder = 0, policy = 0;
	s32 prio = 0;
	read_kernel(&holder, &task->pid);
	read_kernel(&prio, &task->normal_prio);
	read_kernel(&policy, &task->policy);
	bpf_probe_read_kernel_str(slot->name, sizeof(slot->name), &task->comm);
	slot->b |= holder;
	slot->c = (u64)policy << 32 | (u16)prio;
}

#include "stops.h"

/* A target goes to sleep: in a futex it may wait for a lock, whose holder the kernel knows
 * if the lock has priority inheritance. */
static ALWAYS_INLINE void may_wait(struct lane *lane, struct task_struct *task, u64 now_ns, u32 cpu)
{
	struct pt_regs *regs = bpf_task_pt_regs(task);
	if (!regs || call_number(regs) != CALL_FUTEX)
		return;
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, LOCK_WAIT, &turn);
	if (!slot)
		return;
	slot->a = FIRST_ARGUMENT(regs);
	slot->b = (u64)BY_FUTEX << 32;
	slot->c = 0;
	slot->name[0] = 0;
	struct task_struct *holder = holder_of(task);
	if (holder)
		name_holder(slot, holder);
	done(slot, turn);
}

static ALWAYS_INLINE int switched(u64 preempted, struct task_struct *from, struct task_struct *to, u64 state)
{
	HERE;
	u32 from_tid = from->pid, to_tid = to->pid;
	if (!lane->due_ns && state && !(preempted & 1) && is_target(lane, from_tid)) {
		may_wait(lane, from, now_ns, cpu);
		/* So that this event is later than the one before. */
		now_ns = bpf_ktime_get_ns();
	}
	if (state & (STATE_STOPPED | STATE_TRACED) && !(preempted & 1) && is_target(lane, from_tid))
		record_stop(lane, from, state, now_ns, cpu);
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, SWITCH, &turn);
	if (!slot)
		return 0;
	slot->a = (u64)to_tid << 32 | from_tid;
	slot->b = is_frozen(from, state) ? state | STATE_FROZEN : state;
	slot->c = (u64)(u16)to->prio << 16 | (u16)from->prio | (u64)to->policy << 48 | (u64)(from->policy & 0xffff) << 32;
	slot->d = preempted & 1;
	__builtin_memcpy(slot->name, to->comm, sizeof(slot->name));
	done(slot, turn);
	/* A target that is preempted has not read its clock yet: taking a stack would delay it further. */
	if (lane->waiting && ((preempted & 1) || !state) && is_target(lane, from_tid))
		forget_who_left(lane);
	if (is_target(lane, to_tid)) {
		note_who_left(lane, now_ns, from, (preempted & 1) || !state, ready_since(lane, to_tid));
		lane->due_ns = 0;
		return 0;
	}
	look_who_is_back(lane, now_ns, cpu, to);
	if (sentinel_on && lane->due_ns && is_target(lane, from_tid)) {
		/* It sleeps. The timer is moved forward each time before it fires, unless the target is late. */
		struct sentinel *sentinel = bpf_map_lookup_elem(&sentinels, &cpu);
		if (sentinel) {
			lane->arming = 1;
			bpf_timer_start(&sentinel->timer, lane->due_ns + threshold_ns, TIMER_ABSOLUTE | TIMER_PINNED);
			lane->arming = 0;
		}
	}
	return 0;
}

ON(sched_switch)
{
	return switched(args[0], (struct task_struct *)args[1], (struct task_struct *)args[2], args[3]);
}

/* Kernels before 5.18 don't pass the state. */
SEC("tp_btf/sched_switch") int on_sched_switch_of_old(u64 *args)
{
	struct task_struct *from = (struct task_struct *)args[1];
	return switched(args[0], from, (struct task_struct *)args[2], from->__state);
}

static int fired(void *map, u32 *key, struct sentinel *sentinel)
{
	return 0;
}

/* Run once for each CPU before anything is attached: gives its sentinel a timer. */
SEC("classifier") int make_sentinels(void *ctx)
{
	for (u32 index = 0; index < 4096; index++) {
		if (index >= cpus)
			break;
		u32 key = index;
		struct sentinel *sentinel = bpf_map_lookup_elem(&sentinels, &key);
		if (!sentinel)
			break;
		if (bpf_timer_init(&sentinel->timer, &sentinels, CLOCK_IS_MONOTONIC))
			return 1;
		if (bpf_timer_set_callback(&sentinel->timer, fired))
			return 2;
	}
	return 0;
}

ON(nmi_handler)
{
	HERE;
	RECORD(NMI, args[1], 0, 0, 0);
	return 0;
}

ON(cpu_idle)
{
	/* The CPU left the idle state: the interrupt that woke it shows that already. */
	if ((u32)args[0] == ~0U)
		return 0;
	HERE;
	RECORD(IDLE, (u32)args[0], 0, 0, 0);
	return 0;
}

/* A CPU requests a function call of another: recorded on the CPU that executes it. */
SEC("raw_tp/csd_queue_cpu") int on_csd_queue_cpu(u64 *args)
{
	u32 cpu = (u32)args[0], here = bpf_get_smp_processor_id();
	struct lane *lane = lane_of(cpu), *own = lane_of(here);
	if (!lane || !lane->mask || !own)
		return 0;
	u32 turn;
	struct slot *slot = begin(lane, bpf_ktime_get_ns(), cpu, CALL_SENT, &turn);
	if (!slot)
		return 0;
	slot->a = args[2];
	slot->b = (u64)here << 32;
	slot->d = args[3];
	if (!in_interrupt(&own->area, here)) {
		struct task_struct *sender = bpf_get_current_task_btf();
		slot->b |= (u32)sender->pid;
		slot->c = (u64)sender->policy << 32 | (u16)sender->prio;
		__builtin_memcpy(slot->name, sender->comm, sizeof(slot->name));
	}
	done(slot, turn);
	return 0;
}

SEC("raw_tp/csd_function_entry") int on_csd_function_entry(u64 *args)
{
	HERE;
	RECORD(CALL_ENTRY, args[0], args[1], 0, 0);
	return 0;
}

SEC("raw_tp/csd_function_exit") int on_csd_function_exit(u64 *args)
{
	HERE;
	RECORD(CALL_EXIT, args[0], 0, 0, 0);
	return 0;
}

ON(workqueue_execute_start)
{
	HERE;
	struct work_struct *work = (struct work_struct *)args[0];
	RECORD(WORK_START, work->func, 0, 0, 0);
	return 0;
}

/* A target waits for a lock. A mutex has its holder: its first word points to the owner,
 * apart from its lowest bits. */
enum { BY_RT_MUTEX = 8, BY_MUTEX = 32 };

ON(contention_begin)
{
	HERE;
	u32 tid = current_tid();
	if (!is_target(lane, tid))
		return 0;
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, LOCK_WAIT, &turn);
	if (!slot)
		return 0;
	void *lock = (void *)args[0];
	u32 flags = args[1];
	slot->a = (u64)lock;
	slot->b = (u64)flags << 32;
	slot->c = 0;
	slot->name[0] = 0;
	u64 owner = 0;
	/* On PREEMPT_RT a mutex is an rt_mutex. */
	if (flags & BY_MUTEX && field_exists(((struct mutex *)0)->owner))
		read_kernel(&owner, &((struct mutex *)lock)->owner);
	else if (flags & BY_RT_MUTEX && field_exists(((struct rt_mutex_base *)0)->owner))
		read_kernel(&owner, &((struct rt_mutex_base *)lock)->owner);
	owner &= ~7ULL;
	if (owner)
		name_holder(slot, (struct task_struct *)owner);
	done(slot, turn);
	return 0;
}

ON(contention_end)
{
	HERE;
	if (!is_target(lane, current_tid()))
		return 0;
	RECORD(LOCK_DONE, args[0], 0, 0, 0);
	return 0;
}

ON(page_fault_user)
{
	HERE;
	u32 tid = current_tid();
	if (!is_target(lane, tid))
		return 0;
	RECORD(FAULT, args[0], tid, 0, 0);
	return 0;
}
