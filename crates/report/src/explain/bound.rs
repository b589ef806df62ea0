//! What to do about threads that no affinity moves: the kernel's own of each CPU, and what runs
//! in its softirqs.

use super::accused::Accused;
use super::fix::write;
use super::interrupts;
use super::places::Places;
use punctual_record::Run;
use punctual_record::explanation::softirq_name;

/// The kernel's threads of one CPU each, by the beginning of their names: `migration/1`.
const OF_ONE_CPU: [&str; 7] = [
    "migration",
    "cpuhp",
    "rcuc",
    "irq_work",
    "idle_inject",
    "backlog_napi",
    "posixcputmr",
];
/// Softirqs have numbers below this.
const SOFTIRQS: u32 = 10;

/// Advice for a thread that can't be moved; nothing for any other.
pub(super) fn advice(
    task: &str,
    work: Option<&str>,
    run: &Run,
    (places, accused): (&Places, &Accused<'_>),
) -> Option<String> {
    // A program may have the name of one.
    if accused.are_programs() {
        return None;
    }
    let Places {
        hit,
        probed,
        elsewhere,
        mask,
        ..
    } = places;
    if task.is_empty() {
        return Some(format!(
            "what it was has no name here: keep other programs off CPU {hit} (boot with \
             isolcpus={probed})"
        ));
    }
    if let Some(name) = task.strip_prefix("softirq ") {
        let number = (0..SOFTIRQS).find(|number| softirq_name(*number) == name);
        return Some(match number {
            Some(number) => interrupts::softirq(number, run, places),
            None => interrupts::raised(run, places),
        });
    }
    if task.starts_with("kworker") {
        let of = work.map_or_else(String::new, |work| format!(" ({work})"));
        return Some(format!(
            "work items on CPUs {elsewhere}{of}: {} moves those of unbound workers; the others run \
             where they are queued",
            write("/sys/devices/virtual/workqueue/cpumask", mask)
        ));
    }
    if task.starts_with("ksoftirqd") || task.starts_with("ktimers") {
        return Some(interrupts::raised(run, places));
    }
    // Rankings count by the name without its CPU.
    let (name, cpu) = task.split_once('/').unwrap_or((task, ""));
    let of_one_cpu =
        OF_ONE_CPU.contains(&name) && cpu.bytes().all(|letter| letter.is_ascii_digit());
    of_one_cpu.then(|| {
        format!(
            "the kernel's own thread of that CPU, which cannot be moved: give it less to do there \
             (boot with isolcpus=domain,{probed} nohz_full={probed} rcu_nocbs={probed})"
        )
    })
}
