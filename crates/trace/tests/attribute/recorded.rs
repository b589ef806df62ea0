//! Windows that were recorded on a real kernel, with the length of the injected delay.

use std::fs;

use punctual_trace::attribute::event::Window;
use punctual_trace::attribute::{Cause, bill};

use super::data::{data, window};

/// How much of the injected delay is within the wake-up.
fn injected(name: &str, window: &Window) -> u64 {
    let text = fs::read(data("windows").join(format!("{name}-truth.json"))).unwrap();
    let truth: Vec<(u64, u64)> = serde_json::from_slice(&text).unwrap();
    let within = |(from, to): &(u64, u64)| {
        let to = (*to).min(window.woken_ns);
        to.saturating_sub((*from).max(window.due_ns))
    };
    truth.iter().map(within).sum()
}

/// Compares the largest cause with the injected delay. What interrupted the culprit
/// meanwhile, including the tracer's stack, has rows of its own.
fn hold(name: &str, is_culprit: fn(&Cause) -> bool) {
    for number in 0..3 {
        let window = window(&format!("{name}-{number}"));
        let bill = bill(&window);
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, window.woken_ns - window.due_ns);
        let causes = bill.causes();
        assert!(is_culprit(causes[0].0), "{name} {number}: {causes:#?}");
        let truth = injected(name, &window);
        let interrupts: u64 = causes
            .iter()
            .filter(|(cause, _)| {
                matches!(
                    cause,
                    Cause::Tracer
                        | Cause::CpuInterrupt { .. }
                        | Cause::TimerCallback { .. }
                        | Cause::Softirq { .. }
                )
            })
            .map(|(_, ns)| ns)
            .sum();
        let allowed = (truth / 50).max(5_000);
        assert!(
            causes[0].1 <= truth + allowed,
            "{name} {number}: {truth} {causes:#?}"
        );
        assert!(
            causes[0].1 + interrupts + allowed >= truth,
            "{name} {number}: {truth} {causes:#?}"
        );
        assert_eq!(bill.residue_ns(), 0, "{name} {number}: {causes:#?}");
    }
}

/// A thread at FIFO 50 used all of the CPU, and the kernel throttled it for some 50 ms of each
/// second, together with the probe at FIFO 80. In one window the thread that ran meanwhile had
/// started before the probe was ready: interrupts that found it in user mode show that the probe
/// was throttled.
#[test]
fn throttling_is_distinguished_from_a_thread_that_is_not_preempted() {
    for number in 0..2 {
        let window = window(&format!("throttled-{number}"));
        let bill = bill(&window);
        let throttled = bill.rows.iter();
        let throttled = throttled.filter(|row| matches!(row.cause, Cause::Throttled { .. }));
        let ns: u64 = throttled.map(|row| row.ns).sum();
        assert!(bill.latency_ns > 48_000_000);
        assert!(ns >= bill.latency_ns / 100 * 99, "{number}: {bill:#?}");
    }
}

#[test]
fn preemption_disabled_by_a_known_thread_is_billed_to_it() {
    hold(
        "preempt-off",
        |cause| matches!(cause, Cause::PreemptOff { task, .. } if task == "preempt-off"),
    );
    let bill = bill(&window("preempt-off-0"));
    let row = bill.rows.iter().max_by_key(|row| row.ns).unwrap();
    assert!(
        row.stack
            .iter()
            .any(|frame| frame.starts_with("bpf_prog_test_run_raw_tp"))
    );
}

#[test]
fn interrupts_disabled_by_another_cpus_call_are_billed_to_it() {
    hold(
        "irqs-off",
        |cause| matches!(cause, Cause::Call { function } if function == "__bpf_prog_test_run_raw_tp"),
    );
}

#[test]
fn a_thread_above_the_probe_is_billed_for_its_time() {
    hold(
        "hog",
        |cause| matches!(cause, Cause::Thread { task, priority: 99, .. } if task == "fifo99-hog"),
    );
}

#[test]
fn a_quiet_wake_up_consists_of_idle_exit_and_its_own_path() {
    for number in 0..3 {
        let bill = bill(&window(&format!("quiet-{number}")));
        let causes = bill.causes();
        let known = |cause: &Cause| matches!(cause, Cause::IdleExit { .. } | Cause::WakePath);
        assert!(
            causes[..2].iter().all(|(cause, _)| known(cause)),
            "{causes:#?}"
        );
        assert!(bill.stages.ns.iter().all(Option::is_some));
        assert!(bill.is_explained());
    }
}
