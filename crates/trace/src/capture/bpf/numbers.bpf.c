/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The thread numbers in our PID namespace and in its children: the kernel's
 * events use the numbers of the initial namespace, and a container knows only its own.
 *
 * trace/capture/numbers.rs reads them. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} CO_RE;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CO_RE;

static long (*const bpf_seq_write)(struct seq_file *to, const void *data, u32 size) = (void *)127;

struct number {
	u32 here;
	u32 kernels;
};

SEC("iter/task") int each_task(struct bpf_iter__task *at)
{
	struct task_struct *task = at->task;
	if (!task)
		return 0;
	struct pid *own = bpf_get_current_task_btf()->thread_pid;
	struct pid *pid = task->thread_pid;
	u32 level = 0;
	struct upid number = {};
	read_kernel(&level, &own->level);
	if (!pid)
		return 0;
	/* A number for each namespace that it is in, the initial namespace's first. */
	read_kernel(&number, (struct upid *)((char *)pid + __builtin_preserve_field_info(((struct pid *)0)->numbers, FIELD_BYTE_OFFSET)) + level);
	struct number line = {.here = number.nr, .kernels = task->pid};
	bpf_seq_write(at->meta->seq, &line, sizeof(line));
	return 0;
}
