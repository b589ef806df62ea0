/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The flight recorder's interrupts: the CPU's own, those of devices, and softirqs. Included by recorder.bpf.c
 * alone, behind what it uses. */
#pragma once

/* The CPU's timer interrupts. */
static ALWAYS_INLINE int timer_interrupts(u64 *args, struct lane *lane, u64 now_ns, u32 cpu)
{
	lane->interrupted = current_tid();
	struct { u64 address, segment; } at = {};
	u64 steal = 0;
	u32 preempt = 0;
	u64 area = own_area(&lane->area, cpu);
	if (area) {
		u32 turn = lane->timers++ & 15;
		struct task_struct *task = bpf_get_current_task_btf();
		/* Where an idle CPU was is known, and most wake-ups are of this kind. */
		int idle = task->pid == 0, user = 0;
		if (irq_regs_at && !idle) {
			struct pt_regs *regs = 0, *of_user = bpf_task_pt_regs(task);
			read_kernel(&regs, (void *)(area + irq_regs_at));
			user = regs && regs == of_user && (segment_of(STATE_OF(of_user)) & 3);
			if (user) {
				/* No call of a helper: it would cost more than everything else here. */
				at.address = INSTRUCTION(of_user);
				at.segment = STATE_OF(of_user);
			} else if (regs) {
				bpf_probe_read_kernel(&at, sizeof(at), &INSTRUCTION(regs));
			}
			at.segment = segment_of(at.segment);
		}
		/* Over a program the count is what tracing itself adds: it is read now and then. */
		if (!idle && (!user || !turn))
			preempt = preempt_count(area, 0);
		/* Where it stays 0 there is no account: on bare metal, and in most hypervisors. */
		if (steal_at && (lane->stolen || !turn)) {
			read_kernel(&steal, (void *)(area + steal_at));
			lane->stolen = steal;
		}
	}
	RECORD(VECTOR_ENTRY, LOCAL_TIMER | (u64)preempt << 32, at.address, at.segment, steal);
	/* A program that was interrupted has no stack in the kernel, and its name is known. */
	if (!(at.segment & 3) && threshold_ns && lane->due_ns && lane->caught_ns != lane->due_ns && now_ns > lane->due_ns + threshold_ns) {
		lane->caught_ns = lane->due_ns;
		take_stack(args, lane, cpu, now_ns);
	}
	return 0;
}

#if defined(__TARGET_ARCH_arm64)

/* Its timer and the interrupts between CPUs are handlers like any other, by name. */
static ALWAYS_INLINE u64 first_letters(struct irqaction *action)
{
	char letters[8] = {};
	bpf_probe_read_kernel(letters, sizeof(letters), action->name);
	return *(u64 *)letters;
}
/* "arch_timer", "IPI": their first bytes as a number. */
static ALWAYS_INLINE int is_timer(u64 letters)
{
	return letters == 0x6d69745f68637261;
}
static ALWAYS_INLINE int is_between(u64 letters)
{
	return (u32)letters == 0x495049;
}

/* Interrupts between CPUs, by the first letter of what each is for (ipi_types in arm64/kernel/smp.c). */
static ALWAYS_INLINE u32 vector_of(const char *reason)
{
	char first = 0;
	bpf_probe_read_kernel(&first, sizeof(first), reason);
	switch (first) {
	case 'R': /* Rescheduling interrupts */
		return RESCHEDULE;
	case 'F': /* Function call interrupts */
		return CALL_FUNCTION;
	case 'I': /* IRQ work interrupts */
		return IRQ_WORK;
	case 'T': /* Timer broadcast interrupts */
		return LOCAL_TIMER;
	default:
		return PLATFORM;
	}
}

ON(ipi_entry)
{
	HERE;
	lane->interrupted = current_tid();
	RECORD(VECTOR_ENTRY, vector_of((const char *)args[0]), 0, 0, 0);
	return 0;
}

ON(ipi_exit)
{
	HERE;
	lane->interrupted = 0;
	RECORD(VECTOR_EXIT, vector_of((const char *)args[0]), 0, 0, 0);
	return 0;
}

#else

ON(local_timer_entry)
{
	HERE;
	return timer_interrupts(args, lane, now_ns, cpu);
}

#define VECTOR_END(tracepoint, vector)                                                             \
	ON(tracepoint##_exit)                                                                      \
	{                                                                                          \
		HERE;                                                                              \
		lane->interrupted = 0;                                                             \
		RECORD(VECTOR_EXIT, vector, 0, 0, 0);                                              \
		return 0;                                                                          \
	}
#define VECTOR(tracepoint, vector)                                                                 \
	ON(tracepoint##_entry)                                                                     \
	{                                                                                          \
		HERE;                                                                              \
		lane->interrupted = current_tid();                                                 \
		RECORD(VECTOR_ENTRY, vector, 0, 0, 0);                                             \
		return 0;                                                                          \
	}                                                                                          \
	VECTOR_END(tracepoint, vector)

VECTOR_END(local_timer, LOCAL_TIMER)
VECTOR(reschedule, RESCHEDULE)
VECTOR(call_function, CALL_FUNCTION)
VECTOR(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR(irq_work, IRQ_WORK)
VECTOR(x86_platform_ipi, PLATFORM)
VECTOR(thermal_apic, THERMAL)
VECTOR(threshold_apic, THRESHOLD)

#endif

ON(irq_handler_entry)
{
	HERE;
	struct irqaction *action = (struct irqaction *)args[1];
#if defined(__TARGET_ARCH_arm64)
	u64 letters = first_letters(action);
	if (is_timer(letters))
		return timer_interrupts(args, lane, now_ns, cpu);
	if (is_between(letters))
		return 0;
#endif
	lane->interrupted = current_tid();
	u32 turn;
	struct slot *slot = begin(lane, now_ns, cpu, HANDLER_ENTRY, &turn);
	if (!slot)
		return 0;
	slot->a = (u32)args[0];
	bpf_probe_read_kernel_str(slot->name, sizeof(slot->name), action->name);
	done(slot, turn);
	return 0;
}

ON(irq_handler_exit)
{
	HERE;
#if defined(__TARGET_ARCH_arm64)
	u64 letters = first_letters((struct irqaction *)args[1]);
	if (is_between(letters))
		return 0;
	if (is_timer(letters)) {
		lane->interrupted = 0;
		RECORD(VECTOR_EXIT, LOCAL_TIMER, 0, 0, 0);
		return 0;
	}
#endif
	lane->interrupted = 0;
	RECORD(HANDLER_EXIT, (u32)args[0], 0, 0, 0);
	return 0;
}

ON(softirq_entry)
{
	HERE;
	lane->served = current_tid();
	RECORD(SOFTIRQ_ENTRY, (u32)args[0], 0, 0, 0);
	return 0;
}

ON(softirq_exit)
{
	HERE;
	lane->served = 0;
	RECORD(SOFTIRQ_EXIT, (u32)args[0], 0, 0, 0);
	return 0;
}
