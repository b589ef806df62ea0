//! A culprit that is injected leads to the knob that bears on it: from the bills of a run to the
//! proposal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::alone::alone;
use crate::common::host::HostTime;
use crate::common::{Place, cpus, need, needs};
use crate::culprits::measure_for_bills;
use crate::throttled::{Hog, armed, hidden_by};
use punctual_record::Run;
use punctual_record::explanation::Cause;
use punctual_record::finding::FindingId;
use punctual_record::remedy::{BillsAsk, CauseCost};
use punctual_rt::sched::{Policy, set_current};

/// The words of the plan, without its line breaks.
fn plan(place: &Place) -> String {
    let plan = place.run(&["tune", "plan", "--from", "run"]).expect(0);
    let words: Vec<&str> = plan.stdout.split_whitespace().collect();
    words.join(" ")
}

fn cost(run: &Run, knob: FindingId) -> CauseCost {
    let ask = BillsAsk::of(run, None).expect("it was traced");
    let found = ask.knobs.into_iter().find(|(id, _)| *id == knob);
    found.map(|(_, cost)| cost).unwrap_or_default()
}

/// A thread of FIFO 90 that is in the way for 8 ms, again and again.
struct InTheWay {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InTheWay {
    fn on(cpu: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let body = move || {
            punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
            set_current(Policy::Fifo(90)).expect("root may");
            while !ended.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(8) {}
                sleep(Duration::from_millis(60));
            }
        };
        let thread = Builder::new().name("in-the-way".to_owned()).spawn(body);
        Self {
            over,
            thread: Some(thread.expect("a thread")),
        }
    }
}

impl Drop for InTheWay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_thread_above_the_probe_leads_to_competing_priorities() {
    need!(needs::root());
    let _alone = alone();
    let cpu = cpus()[0];
    let hog = InTheWay::on(cpu);
    let place = Place::new();
    assert_ne!(measure_for_bills(&place, cpu).code(), 1);
    let cost = cost(&place.run_of_path("run"), FindingId::CompetingPriorities);
    let is_it = |cause: &Cause| matches!(cause, Cause::Thread { task, .. } if task == "in-the-way");
    assert!(cost.causes.iter().any(is_it), "{cost:?}");
    // In 3 s it came 40 times, for 8 ms each; a quarter is enough to be sure.
    assert!(cost.count >= 10, "{cost:?}");
    assert!(cost.total_ns >= 10 * 4_000_000, "{cost:?}");
    let bad = plan(&place);
    let bad = bad.split("Depends on the program").next().unwrap_or("");
    let proposal = bad.split("competing-priorities cost").nth(1);
    let proposal = proposal.unwrap_or_default();
    for words in [
        "thread in-the-way, SCHED_FIFO 90",
        "in-the-way (FIFO 90)",
        "hand lower their",
    ] {
        assert!(proposal.contains(words), "{words}: {bad}");
    }
    // Without it, what bears on it is ok, or another thread's.
    drop(hog);
    let after = plan(&place);
    assert!(!after.contains("in-the-way (FIFO 90)"), "{after}");
}

#[test]
fn throttling_leads_to_the_limit_that_can_be_lifted_now() {
    let _alone = alone();
    need!(armed());
    need!(needs::tracing());
    let cpu = cpus()[0];
    // Below the probe: never in its way, and yet it uses all that real-time threads may use.
    let hog = Hog::at(50, cpu);
    // It waits for the CPU: without any such thread newer kernels take no time from the others.
    let starving = Hog::ordinary(cpu);
    let place = Place::new();
    let host = HostTime::of(cpu);
    let cpu = cpu.to_string();
    let flags = [
        "measure",
        "-q",
        "--load",
        "none",
        "-a",
        &cpu,
        "-p",
        "80",
        "-D",
        "5",
        "--deadline",
        "10ms",
        "-o",
        "run",
    ];
    place.run(&flags);
    drop((hog, starving));
    let run = place.run_of_path("run");
    let cost = cost(&run, FindingId::RtThrottling);
    if cost.count == 0 {
        return hidden_by(&host, &format!("{cost:?}"));
    }
    let is_it = |cause: &Cause| matches!(cause, Cause::Throttled { .. });
    assert!(cost.causes.iter().any(is_it), "{cost:?}");
    assert!(cost.worst_ns >= 10_000_000, "{cost:?}");
    let plan = plan(&place);
    let proposal = plan.split("rt-throttling cost").nth(1).unwrap_or_default();
    assert!(
        proposal.contains("now echo -1 > /proc/sys/kernel/sched_rt_runtime_us"),
        "{plan}"
    );
}
