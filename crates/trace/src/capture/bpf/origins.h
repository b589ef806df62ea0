/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Where threads come from: taken when they begin and when they execute another program, because a
 * short-lived one has ended before anyone can look, and its control group may be gone with it.
 *
 * capture/origins.rs decodes them. */
#pragma once

#include "kernel.h"
#include "ring.h"

#define ORIGINS 4096 /* a later thread with the same remainder replaces an earlier one */
#define ANCESTORS 4
#define COMMAND 128
#define GROUPS 8
#define GROUP_NAME 96

struct ancestor {
	u64 tid; /* 0: none */
	char name[16];
};
struct origin {
	u64 tid; /* written last; 0: it is being written */
	u64 start_ns;
	u32 pid;
	u32 flags;
	u64 since_ns; /* when it was described: it may have executed another program since */
	struct ancestor ancestors[ANCESTORS]; /* the nearest first */
	char command[COMMAND];                /* each argument ends with a zero */
	char groups[GROUPS][GROUP_NAME];      /* names of the control groups, the innermost first */
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, ORIGINS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct origin);
} origins SEC(".maps");

/* The group of version 2; else, if that is the root, the one of the CPU controller. */
static ALWAYS_INLINE struct cgroup *group_of(struct task_struct *task)
{
	struct css_set *set = 0;
	struct cgroup *group = 0;
	struct cgroup_subsys_state *parent = 0;
	read_kernel(&set, &task->cgroups);
	if (set)
		read_kernel(&group, &set->dfl_cgrp);
	if (group)
		read_kernel(&parent, &group->self.parent);
	struct task_group *tasks = 0;
	if (!parent && field_exists(task->sched_task_group))
		read_kernel(&tasks, &task->sched_task_group);
	if (tasks)
		read_kernel(&group, &tasks->css.cgroup);
	return group;
}

static ALWAYS_INLINE void read_groups(struct origin *origin, struct task_struct *task)
{
	struct cgroup *group = group_of(task);
#pragma unroll
	for (int level = 0; level < GROUPS; level++) {
		struct cgroup_subsys_state *parent = 0;
		struct kernfs_node *node = 0;
		const char *name = 0;
		origin->groups[level][0] = 0;
		if (group)
			read_kernel(&parent, &group->self.parent);
		/* The root has no name. */
		if (parent)
			read_kernel(&node, &group->kn);
		if (node)
			read_kernel(&name, &node->name);
		if (name)
			bpf_probe_read_kernel_str(origin->groups[level], GROUP_NAME, name);
		group = (struct cgroup *)parent;
	}
}

/* From its creator on. */
static ALWAYS_INLINE void read_ancestors(struct origin *origin, struct task_struct *at)
{
#pragma unroll
	for (int level = 0; level < ANCESTORS; level++) {
		struct task_struct *parent = 0;
		u32 tid = 0;
		if (at) {
			read_kernel(&tid, &at->pid);
			read_kernel(&parent, &at->real_parent);
			bpf_probe_read_kernel_str(origin->ancestors[level].name, sizeof(origin->ancestors[level].name), &at->comm);
		}
		origin->ancestors[level].tid = tid;
		at = parent;
	}
}

/* Describes a thread. The current one has its command line: as it begins it is its creator's. The parent
 * of a thread that is no process of its own is that of its process: no creator. */
static ALWAYS_INLINE void describe(struct task_struct *task, struct task_struct *creator)
{
	u32 tid = task->pid, index = tid % ORIGINS;
	struct origin *origin = bpf_map_lookup_elem(&origins, &index);
	if (!origin)
		return;
	u64 start_ns = task->start_time;
	/* Its parent may have ended since it began, and init has taken the place of that. */
	int is_new = creator || origin->tid != tid || origin->start_ns != start_ns;
	*(volatile u64 *)&origin->tid = 0;
	asm volatile("" ::: "memory");
	origin->start_ns = start_ns;
	origin->pid = task->tgid;
	origin->flags = task->flags;
	origin->since_ns = bpf_ktime_get_ns();
	if (!creator)
		read_kernel(&creator, &task->real_parent);
	if (is_new)
		read_ancestors(origin, creator);
	read_groups(origin, task);
	__builtin_memset(origin->command, 0, COMMAND);
	struct task_struct *current = bpf_get_current_task_btf();
	struct mm_struct *memory = 0;
	u64 from = 0, to = 0;
	read_kernel(&memory, &current->mm);
	if (memory) {
		read_kernel(&from, &memory->arg_start);
		read_kernel(&to, &memory->arg_end);
	}
	u64 size = to - from;
	if (size > COMMAND)
		size = COMMAND;
	bpf_probe_read_user(origin->command, size, (void *)from);
	asm volatile("" ::: "memory");
	*(volatile u64 *)&origin->tid = tid;
}

ON(sched_process_fork)
{
	describe((struct task_struct *)args[1], (struct task_struct *)args[0]);
	return 0;
}

ON(sched_process_exec)
{
	describe((struct task_struct *)args[0], 0);
	return 0;
}
