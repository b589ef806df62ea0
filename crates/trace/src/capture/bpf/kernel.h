/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the BPF programs use of the kernel: its helpers by their numbers (uapi/linux/bpf.h), and
 * the fields of its structures that are read. Their offsets are resolved when the program
 * is loaded, from the kernel's description of its types (CO-RE). */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* How a map is described to the loader. */
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) __typeof__(type) *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_STACK_TRACE = 7, MAP_LRU_HASH = 9 };
enum { MAP_MMAPABLE = 1 << 10 };

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
enum { UPDATE_ANY = 0, UPDATE_NOEXIST = 1 };
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;
static long (*const bpf_get_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static long (*const bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_get_task_stack)(struct task_struct *task, void *to, u32 size, u64 flags) = (void *)141;
static u64 (*const bpf_get_attach_cookie)(void *ctx) = (void *)174;
static struct pt_regs *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

/* Opaque to us; the kernel requires this name. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 clock) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 ns, u64 flags) = (void *)171;
enum { TIMER_ABSOLUTE = 1, TIMER_PINNED = 2, CLOCK_IS_MONOTONIC = 1 };

#define CO_RE __attribute__((preserve_access_index))

struct cfs_rq;
struct rq {
	u64 clock;
	s32 cpu;
} CO_RE;
struct cfs_rq {
	struct rq *rq;
} CO_RE;
struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
} CO_RE;
struct sched_dl_entity {
	u64 dl_runtime;  /* of each period */
	u64 dl_deadline; /* from its beginning */
	u64 dl_period;
	s64 runtime;     /* what is left of it */
	s64 deadline;
} CO_RE;
struct sched_info {
	u64 run_delay; /* how long it was ready to run and had no CPU */
} CO_RE;
struct rt_mutex_waiter;
struct thread_info {
	u64 preempt_count; /* of each thread, on arm64: the lower half */
} CO_RE;
/* As on 64 bits: a number and the namespace that it belongs to. */
struct upid {
	s32 nr;
	void *ns;
};
struct pid {
	u32 level; /* of the innermost namespace */
	struct upid numbers[1];
} CO_RE;
struct css_set;
struct task_group;
struct mm_struct {
	u64 arg_start; /* the command line */
	u64 arg_end;
} CO_RE;
struct task_struct {
	struct thread_info thread_info;
	s32 pid;
	s32 tgid;
	s32 prio;
	s32 normal_prio; /* without priority inheritance */
	u32 policy;
	u32 __state;
	s32 on_rq; /* whether it is in a run queue */
	u32 flags;
	s32 exit_code; /* as wait(2) has it */
	u64 jobctl; /* why it stops */
	u64 nvcsw;  /* how often it went to sleep */
	u64 nivcsw; /* how often it was preempted */
	u64 start_time;
	u64 min_flt;
	u64 maj_flt;
	void *stack;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	struct task_struct *real_parent; /* who created it, or who took the place of that */
	struct task_struct *parent;      /* the same, or its debugger */
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct task_group *sched_task_group;
	char comm[16];
	struct sched_entity se;
	struct sched_dl_entity dl;
	struct sched_info sched_info;
	struct rt_mutex_waiter *pi_blocked_on;
} CO_RE;

enum {
	STATE_INTERRUPTIBLE = 1,
	STATE_UNINTERRUPTIBLE = 2,
	STATE_FROZEN = 0x8000, /* since 6.1; before, a flag of the task */
};
/* Until 6.0; later kernels have the same bit for a thread of their own. */
enum { FLAG_FROZEN = 0x10000, FLAG_OF_KERNEL = 0x200000 };
/* The freezer of control groups, version 2: an interruptible sleep with this flag. */
enum { JOB_FREEZE = 1 << 23 };

/* Whether a task that leaves its CPU in this state is frozen. */
static ALWAYS_INLINE int is_frozen(struct task_struct *task, u64 state)
{
	return state & STATE_FROZEN || (state & STATE_UNINTERRUPTIBLE && (task->flags & (FLAG_FROZEN | FLAG_OF_KERNEL)) == FLAG_FROZEN) ||
	       (state & STATE_INTERRUPTIBLE && task->jobctl & JOB_FREEZE);
}
struct timerqueue_node {
	s64 expires;
} CO_RE;
struct hrtimer_clock_base {
	s64 offset; /* of this clock from CLOCK_MONOTONIC */
} CO_RE;
struct hrtimer {
	struct timerqueue_node node;
	s64 _softexpires;
	void *function;
	struct hrtimer_clock_base *base;
	u8 is_soft; /* its callback runs in a softirq */
} CO_RE;
struct irqaction {
	const char *name;
} CO_RE;
#include "processor.h"
struct work_struct {
	void *func;
} CO_RE;
typedef struct {
	s64 counter;
} atomic64_like;
struct mutex {
	atomic64_like owner;
} CO_RE;
struct rt_mutex_base {
	struct task_struct *owner;
} CO_RE;
struct rt_mutex_waiter {
	struct rt_mutex_base *lock;
} CO_RE;

/* A control group begins with its state as a controller's subsystem. */
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} CO_RE;
struct kernfs_node {
	u64 id;
	const char *name;
} CO_RE;
struct cgroup_root {
	s32 hierarchy_id;
} CO_RE;
struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
} CO_RE;
struct css_set {
	struct cgroup *dfl_cgrp; /* of version 2 */
} CO_RE;
struct task_group {
	struct cgroup_subsys_state css;
} CO_RE;

#define FIELD_BYTE_OFFSET 0
#define FIELD_EXISTS 2
#define field_exists(field) __builtin_preserve_field_info(field, FIELD_EXISTS)
#define read_kernel(to, from) bpf_probe_read_kernel(to, sizeof(*(to)), from)

/* The owner of the lock that a task waits for, if the lock has priority inheritance; else 0.
 * The lowest bits of an owner are flags. */
static ALWAYS_INLINE struct task_struct *holder_of(struct task_struct *task)
{
	u64 waiter = (u64)task->pi_blocked_on, lock = 0, owner = 0;
	if (!waiter || !field_exists(((struct rt_mutex_waiter *)0)->lock))
		return 0;
	read_kernel(&lock, &((struct rt_mutex_waiter *)waiter)->lock);
	if (lock)
		read_kernel(&owner, &((struct rt_mutex_base *)lock)->owner);
	return (struct task_struct *)(owner & ~7ULL);
}
