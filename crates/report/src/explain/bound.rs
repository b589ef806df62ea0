//! What to do about threads that no affinity moves: the kernel's own of each CPU, and what runs
//! in its softirqs.

use super::accused::Accused;
use super::fix::{tune, write};
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
        apart,
        elsewhere,
        mask,
        ..
    } = places;
    if task.is_empty() {
        return Some(format!(
            "what it was has no name here: keep other programs off CPU {hit} (boot with \
             isolcpus={apart})"
        ));
    }
    if let Some(name) = task.strip_prefix("softirq ") {
        let number = (0..SOFTIRQS).find(|number| softirq_name(*number) == name);
        return Some(match number {
            Some(number) => interrupts::softirq(number, run, places),
            None => interrupts::raised(run, places, accused),
        });
    }
    if task.starts_with("kworker") {
        let of = work.map_or_else(String::new, |work| format!(" ({work})"));
        // Rankings count by the name without its number: `kworker/u8:1` is unbound, `kworker/2:1` of CPU 2.
        let is_unbound = |name: &str| name.starts_with("kworker/u");
        let mut names = accused.each_name();
        names.push(task);
        names.retain(|name| name.contains('/'));
        let bound = match work {
            Some(work) if work.contains("vmstat") => format!(
                "of a worker of that CPU, which comes each vm.stat_interval: {}",
                tune(&["vm.stat_interval=120".to_owned()])
            ),
            _ => "of a worker of that CPU, which can't be moved: find who queues it there (trace \
                  workqueue:workqueue_queue_work); vmstat_update comes each vm.stat_interval"
                .to_owned(),
        };
        let moved = write("/sys/devices/virtual/workqueue/cpumask", mask);
        return Some(match names.iter().filter(|name| is_unbound(name)).count() {
            0 if !names.is_empty() => format!("work{of} {bound}"),
            unbound if unbound > 0 && unbound == names.len() => {
                format!("work items{of} of unbound workers, on CPUs {elsewhere}: {moved}")
            }
            _ => format!(
                "work items on CPUs {elsewhere}{of}: {moved} moves those of unbound workers; the others run \
                 where they are queued"
            ),
        });
    }
    if task.starts_with("ktimers") {
        return Some(interrupts::of_timers(places));
    }
    if task.starts_with("ksoftirqd") {
        return Some(interrupts::raised(run, places, accused));
    }
    // Rankings count by the name without its CPU.
    let (name, cpu) = task.split_once('/').unwrap_or((task, ""));
    let of_one_cpu =
        OF_ONE_CPU.contains(&name) && cpu.bytes().all(|letter| letter.is_ascii_digit());
    of_one_cpu.then(|| {
        format!(
            "the kernel's own thread of that CPU, which cannot be moved: give it less to do there \
             (boot with isolcpus=domain,{apart} nohz_full={apart} rcu_nocbs={apart})"
        )
    })
}
