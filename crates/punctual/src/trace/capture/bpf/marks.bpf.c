/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Marks: places in a program that its threads pass. How often each thread passed each is
 * counted here, where no count is ever lost; how long it took goes into a ring besides.
 *
 * trace/watch/marks/kernel.rs reads what is written here. */
#include "kernel.h"
#include "ring.h"
#include "program.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* What a place is to its mark: above the mark's number in the cookie that it is attached with. */
enum role {
	POINT,	/* passed again and again */
	BEGIN,	/* of a pair */
	END,
	CALL,	/* of a function */
	RETURN,
};
enum { ROLE_SHIFT = 8 };

/* In the ring. */
enum kind {
	FIRST = 1, /* nothing to count from yet */
	LENGTH,
};

/* What a thread has gone through in its life: how much of it fell into a length follows. */
struct went {
	u64 waited_ns;
	u64 slept;
	u64 preempted;
	u64 faults[2]; /* minor, major */
};

struct key {
	u32 tid;
	u32 mark;
};
/* A thread at a mark. Only the thread itself writes it. */
struct passes {
	u64 started_ns; /* by this the thread is told from a later one of the same number */
	u64 priority;   /* policy << 32 | the kernel's own priority, without what locks lend */
	char name[16];
	u64 count;      /* what went into the ring */
	u64 unfinished; /* begun, and begun again before the end */
	u64 unmatched;  /* ended, and not begun */
	u64 began_ns;   /* 0: it isn't */
	u64 began_sp;
	struct went went; /* by then */
};
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, 4096);
	MAP_TYPE(key, struct key);
	MAP_TYPE(value, struct passes);
} passes SEC(".maps");

/* Passes that are nowhere else, for each mark. */
struct others {
	u64 unwatched; /* by threads that aren't watched */
	u64 beyond;    /* by threads that found no room */
};
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 16);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct others);
} others SEC(".maps");

static ALWAYS_INLINE void look(struct went *went, struct task_struct *task)
{
	went->waited_ns = field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : ~0ULL;
	went->slept = task->nvcsw;
	went->preempted = task->nivcsw;
	went->faults[0] = task->min_flt;
	went->faults[1] = task->maj_flt;
}

static ALWAYS_INLINE void add(struct lane *lane, u64 now_ns, u32 cpu, u16 kind, struct key *key, struct passes *at,
			      struct went *now)
{
	u32 turn;
	at->count++;
	struct slot *slot = begin(lane, now_ns, cpu, kind, &turn);
	if (!slot)
		return;
	slot->a = (u64)key->mark << 32 | key->tid;
	slot->b = now_ns - at->began_ns;
	slot->c = now->waited_ns == ~0ULL ? ~0ULL : now->waited_ns - at->went.waited_ns;
	slot->d = (now->preempted - at->went.preempted) << 32 | (u32)(now->slept - at->went.slept);
	((u64 *)slot->name)[0] = (now->faults[1] - at->went.faults[1]) << 32 | (u32)(now->faults[0] - at->went.faults[0]);
	((u64 *)slot->name)[1] = at->started_ns;
	done(slot, turn);
}

static ALWAYS_INLINE void begins(struct passes *at, u64 now_ns, u64 sp, struct went *now)
{
	at->began_ns = now_ns;
	at->began_sp = sp;
	at->went = *now;
}

SEC("uprobe") int on_mark(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (task->tgid != program)
		return 0;
	u64 cookie = bpf_get_attach_cookie(regs);
	struct key key = {.tid = task->pid, .mark = cookie & ((1 << ROLE_SHIFT) - 1)};
	u32 role = (cookie >> ROLE_SHIFT) & 7;
	struct others *other = bpf_map_lookup_elem(&others, &key.mark);
	if (!other)
		return 0;
	int starts = role != END && role != RETURN;
	if (!is_counted(task)) {
		if (starts)
			__sync_fetch_and_add(&other->unwatched, 1);
		return 0;
	}
	HERE;
	struct passes *at = bpf_map_lookup_elem(&passes, &key);
	if (!at) {
		struct passes empty = {};
		bpf_map_update_elem(&passes, &key, &empty, UPDATE_NOEXIST);
		at = bpf_map_lookup_elem(&passes, &key);
		if (!at) {
			if (starts)
				__sync_fetch_and_add(&other->beyond, 1);
			return 0;
		}
	}
	if (at->started_ns != task->start_time) {
		at->count = at->unfinished = at->unmatched = at->began_ns = 0;
		at->started_ns = task->start_time;
	}
	at->priority = (u64)task->policy << 32 | (u32)task->normal_prio;
	__builtin_memcpy(at->name, task->comm, sizeof(at->name));
	u64 sp = regs->sp;
	struct went now;
	look(&now, task);
	switch (role) {
	case POINT:
		add(lane, now_ns, cpu, at->began_ns ? LENGTH : FIRST, &key, at, &now);
		begins(at, now_ns, sp, &now);
		break;
	case CALL:
		/* It calls itself: the outermost call counts. A frame that the stack has left since,
		 * by an exception or longjmp, never returns. */
		if (at->began_ns && sp < at->began_sp)
			break;
		/* fallthrough */
	case BEGIN:
		if (at->began_ns)
			at->unfinished++;
		begins(at, now_ns, sp, &now);
		break;
	case RETURN:
		/* Of a call within the one that counts. */
		if (at->began_ns && sp <= at->began_sp)
			break;
		/* fallthrough */
	case END:
		if (at->began_ns)
			add(lane, now_ns, cpu, LENGTH, &key, at, &now);
		else
			at->unmatched++;
		at->began_ns = 0;
		break;
	}
	return 0;
}
