/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Selects the watched programs if there are several: they come and go during the watch, and
 * none of their wake-ups may be missed. So the kernel side decides, when they come. */
#pragma once

#include "program.h"

/* Set before the program is loaded. */
const volatile u32 children = 0;  /* children of a watched program are watched, too */
const volatile u64 name_is[2] = {0, 0}; /* programs of this name; all 0: any name */
const volatile u64 group = 0;     /* programs in this control group and below; 0: any group */
const volatile s32 hierarchy = 0; /* the mount that it belongs to */

/* The deepest nesting of control groups. */
enum { DEEPEST_GROUP = 32 };

/* Programs so far, and those that exceeded the map's size. */
struct coming {
	u64 turns;
	u64 refused;
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct coming);
} coming SEC(".maps");

/* When programs left that still run: they took another name, or were moved out. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, 1024);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} departures SEC(".maps");

static ALWAYS_INLINE void departs(u32 number)
{
	u64 now_ns = bpf_ktime_get_ns();
	if (!bpf_map_delete_elem(&programs, &number))
		bpf_map_update_elem(&departures, &number, &now_ns, UPDATE_ANY);
}

static ALWAYS_INLINE void comes(u32 number, u64 started_ns)
{
	u32 zero = 0;
	struct coming *counts = bpf_map_lookup_elem(&coming, &zero);
	if (!counts)
		return;
	struct followed *known = bpf_map_lookup_elem(&programs, &number);
	/* If user space announced it, its start time is found when it first runs. */
	if (known && (!known->started_ns || known->started_ns == started_ns))
		return;
	struct followed new = {
		.started_ns = started_ns,
		.turn = __sync_fetch_and_add(&counts->turns, 1) + 1,
	};
	if (bpf_map_update_elem(&programs, &number, &new, UPDATE_ANY))
		__sync_fetch_and_add(&counts->refused, 1);
	bpf_map_delete_elem(&departures, &number);
}

static ALWAYS_INLINE int is_named(const char *name)
{
	u64 words[2] = {0, 0};
	bpf_probe_read_kernel_str(words, sizeof(words), name);
	return words[0] == name_is[0] && words[1] == name_is[1];
}

ON(sched_process_fork)
{
	struct task_struct *parent = (struct task_struct *)args[0];
	struct task_struct *child = (struct task_struct *)args[1];
	u32 number = child->tgid;
	if (!children || number == parent->tgid || !is_watched(parent))
		return 0;
	if (name_is[0] && !is_named(child->comm))
		return 0;
	comes(number, child->group_leader->start_time);
	return 0;
}

/* The name of its main thread is a program's name. It changes by exec or prctl. */
ON(task_rename)
{
	struct task_struct *task = (struct task_struct *)args[0];
	u32 number = task->tgid;
	if (!name_is[0] || task->pid != number)
		return 0;
	if (is_named((const char *)args[1]))
		comes(number, task->start_time);
	else
		departs(number);
	return 0;
}

/* A program moves into a control group: the main thread's move stands for the whole program. */
ON(cgroup_attach_task)
{
	struct cgroup *to = (struct cgroup *)args[0];
	struct task_struct *task = (struct task_struct *)args[2];
	u32 number = task->tgid;
	if (!group || task->pid != number || to->root->hierarchy_id != hierarchy)
		return 0;
	struct cgroup *at = to;
	for (int depth = 0; depth < DEEPEST_GROUP && at; depth++) {
		struct kernfs_node *node = 0;
		u64 id = 0;
		read_kernel(&node, &at->kn);
		if (node)
			read_kernel(&id, &node->id);
		if (id == group) {
			comes(number, task->start_time);
			return 0;
		}
		struct cgroup_subsys_state *parent = 0;
		read_kernel(&parent, &at->self.parent);
		at = (struct cgroup *)parent;
	}
	departs(number);
	return 0;
}
