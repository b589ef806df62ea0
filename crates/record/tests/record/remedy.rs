//! What bills ask for: every cause has a remedy or an obstacle, times add up, and findings decide
//! what is left to turn.

use punctual_record::document::Printed;
use std::path::Path;

use punctual_record::explanation::{Cause, Stage};
use punctual_record::finding::{Check, Fault, Finding, FindingId, FindingState, RunFindings};
use punctual_record::remedy::{BillsAsk, Obstacle, Surroundings, remedy};
use punctual_record::*;
use serde_json::json;

use super::bills::{bill_of, causes, explanation};
use super::findings_of_run::{findings, tuned};
use super::support::run;

const VIRTUAL: Surroundings = Surroundings {
    is_virtual: true,
    is_real_time: false,
    is_own: false,
};
const METAL: Surroundings = Surroundings {
    is_virtual: false,
    is_real_time: true,
    is_own: false,
};

fn text(text: &str) -> String {
    text.to_owned()
}

fn preempt_off(task: &str, work: Option<&str>) -> Cause {
    Cause::PreemptOff {
        task: text(task),
        work: work.map(text),
    }
}

fn interrupt(irq: u32, name: &str) -> Cause {
    Cause::Interrupt {
        irq,
        name: text(name),
    }
}

fn thread(task: &str, policy: &str, priority: u32) -> Cause {
    Cause::Thread {
        task: text(task),
        policy: text(policy),
        priority,
    }
}

/// Hand-checked: the first knob of a cause on bare metal with PREEMPT_RT, or its obstacle.
#[test]
fn each_cause_has_the_knob_that_bears_on_it() {
    use FindingId as F;
    let call = |function: &str| Cause::Call {
        function: text(function),
    };
    let timer = |function: &str| Cause::TimerCallback {
        function: text(function),
    };
    let off = |task: &str| Cause::IrqsOff {
        function: text("finish_task_switch"),
        task: text(task),
    };
    let known = [
        (interrupt(24, "eth0"), F::IrqAffinity),
        (interrupt(36, "virtio1-req.0"), F::ManagedIrqs),
        (interrupt(0, "timer"), F::NohzFull),
        (Cause::Softirq { number: 3 }, F::IrqAffinity),
        (Cause::Softirq { number: 9 }, F::RcuNocbs),
        (Cause::IdleExit { state: Some(3) }, F::IdleStates),
        (Cause::Nmi, F::Watchdogs),
        (call("rcu_exp_handler"), F::RcuExpedited),
        (call("do_sync_core"), F::Tracing),
        (call("do_flush_tlb_all"), F::IsolatedCpus),
        (timer("tick_nohz_handler"), F::NohzFull),
        (timer("watchdog_timer_fn"), F::WatchdogMask),
        (timer("hrtimer_wakeup"), F::IsolatedCpus),
        (Cause::Throttled { task: text("cc1") }, F::RtThrottling),
        (preempt_off("khugepaged", None), F::TransparentHugepages),
        (preempt_off("ksmd", None), F::Ksm),
        (preempt_off("kcompactd0", None), F::Compaction),
        (off("kdamond.0"), F::MemoryScanners),
        (
            preempt_off("kworker/1:2", Some("vmstat_update")),
            F::VmstatInterval,
        ),
        (preempt_off("kworker/u8:1", None), F::WorkqueueMask),
        (preempt_off("rcu_preempt", None), F::RcuNocbs),
        (preempt_off("jbd2/vda1-8", None), F::DirtyWriteback),
        (preempt_off("firefox", None), F::UserThreads),
        (thread("hog", "SCHED_FIFO", 90), F::CompetingPriorities),
        (thread("irq/36-eth0", "SCHED_FIFO", 90), F::IrqAffinity),
        (thread("napi/eth0-5", "SCHED_FIFO", 90), F::ThreadedNapi),
        (thread("softirq NET_RX", "SCHED_FIFO", 99), F::IrqAffinity),
        (thread("make", "SCHED_OTHER", 0), F::IsolatedCpus),
        (Cause::WakePath, F::Governor),
    ];
    for (cause, knob) in known {
        let remedy = remedy(&cause, METAL);
        assert_eq!(remedy.knobs.first(), Some(&knob), "{cause:?}");
    }
    let hopeless = [
        (Cause::Steal, Obstacle::Host),
        (Cause::Blind, Obstacle::Unknown),
        (Cause::Unexplained, Obstacle::Unknown),
        (Cause::Probe, Obstacle::Program),
        (Cause::Tracer, Obstacle::Tool),
        (off("swapper/1"), Obstacle::Kernel),
    ];
    for (cause, obstacle) in hopeless {
        let remedy = remedy(&cause, METAL);
        assert!(remedy.knobs.is_empty(), "{cause:?}: {remedy:?}");
        assert_eq!(remedy.obstacle, obstacle, "{cause:?}");
    }
    let own = |surroundings| Surroundings {
        is_own: true,
        ..surroundings
    };
    let tool = remedy(&preempt_off("collector", None), own(METAL));
    assert_eq!((tool.knobs, tool.obstacle), (Vec::new(), Obstacle::Tool));
    // PREEMPT_RT is there already, and the load stays.
    let load = remedy(&preempt_off("load-exit", None), own(METAL));
    assert_eq!((load.knobs, load.obstacle), (Vec::new(), Obstacle::Kernel));
    let load = remedy(&preempt_off("load-exit", None), own(VIRTUAL));
    assert_eq!(load.knobs, [F::PreemptMode, F::RtKernel]);
    assert_eq!(remedy(&off("load-exit"), own(VIRTUAL)).knobs, [F::RtKernel]);
    // Any program may have such a name.
    for task in ["collector", "load-exit"] {
        let other = remedy(&preempt_off(task, None), METAL);
        assert_eq!(other.knobs[0], F::UserThreads);
    }
    for (surroundings, obstacle) in [(VIRTUAL, Obstacle::Host), (METAL, Obstacle::Firmware)] {
        assert_eq!(remedy(&Cause::Platform, surroundings).obstacle, obstacle);
    }
}

/// A run whose bills have these causes, each in a late wake-up of its own.
fn late(rows: &[(Cause, u64)]) -> Run {
    let mut ledger = Ledger::new(Some(100_000));
    for (at, (cause, ns)) in rows.iter().enumerate() {
        let bill = bill_of(
            1,
            at as u64 * 1_000_000,
            &[
                (Stage::Callback, Cause::WakePath, 1_000),
                (Stage::Switch, cause.clone(), *ns),
            ],
        );
        ledger.add(&bill);
    }
    let mut run = run(1);
    run.explanation = Some(ledger.to_record());
    run
}

fn check_of(state_of: impl Fn(FindingId) -> FindingState) -> Check {
    let finding = |id: &FindingId| Finding {
        id: *id,
        state: state_of(*id),
        readings: Vec::new(),
        fixes: Vec::new(),
    };
    Check {
        priority: 0,
        version: Check::VERSION,
        hostname: text("made"),
        kernel: text("6.12"),
        cpus: vec![1],
        every_cpu: false,
        findings: FindingId::ALL.iter().map(finding).collect(),
    }
}

fn bad() -> FindingState {
    FindingState::Bad {
        fault: Fault::Above(1),
    }
}

/// 3 ms of two interrupts in three bills, 0.5 ms of a hog, 0.2 ms of the host.
#[test]
fn knobs_stand_by_the_time_that_their_causes_cost() {
    let hog = thread("hog", "SCHED_FIFO", 90);
    let run = late(&[
        (interrupt(24, "eth0"), 1_000_000),
        (hog.clone(), 500_000),
        (interrupt(24, "eth0"), 1_500_000),
        (interrupt(25, "eth1"), 500_000),
        (Cause::Steal, 200_000),
    ]);
    let ask = BillsAsk::of(&run, None).expect("bills");
    assert!(ask.of_late);
    assert_eq!((ask.bills, ask.total_ns), (5, 3_700_000 + 5 * 1_000));
    let (knob, cost) = &ask.knobs[0];
    assert_eq!(*knob, FindingId::IrqAffinity);
    assert_eq!(
        (cost.total_ns, cost.count, cost.worst_ns),
        (3_000_000, 3, 1_500_000)
    );
    assert_eq!(
        cost.causes,
        [interrupt(24, "eth0"), interrupt(25, "eth1")],
        "the dearest first"
    );
    assert_eq!(ask.knobs[1].0, FindingId::Irqbalance, "the second remedy");
    let hogs = ask
        .knobs
        .iter()
        .find(|(knob, _)| *knob == FindingId::CompetingPriorities);
    assert_eq!(hogs.map(|(_, cost)| &cost.causes[..]), Some(&[hog][..]));
    let (obstacle, cost) = &ask.obstacles[0];
    assert_eq!((*obstacle, cost.total_ns), (Obstacle::Host, 200_000));
    assert_eq!(ask.obstacles.len(), 1);

    // Nothing is left to turn: no time is lost between what is settled and the obstacles.
    let hopeless = |ask: &BillsAsk| -> u64 {
        let obstacles = ask.obstacles.iter().map(|(_, cost)| cost.total_ns);
        ask.settled.total_ns + obstacles.sum::<u64>()
    };
    let fine = check_of(|_| FindingState::Ok);
    let ask = BillsAsk::of(&run, Some(&fine)).expect("bills");
    assert_eq!(hopeless(&ask), ask.total_ns);
    assert_eq!(ask.obstacles.len(), 1, "the host");
    let absent = check_of(|_| FindingState::NotApplicable {
        why: finding::NotApplicable::FewCpus,
    });
    let ask = BillsAsk::of(&run, Some(&absent)).expect("bills");
    assert_eq!((hopeless(&ask), ask.settled.count), (ask.total_ns, 0));
    // Interrupts: the kernel; a thread above: its program; the host; the wake-up itself.
    let named: Vec<Obstacle> = ask.obstacles.iter().map(|(what, _)| *what).collect();
    let expected = [
        Obstacle::Kernel,
        Obstacle::Program,
        Obstacle::Host,
        Obstacle::WakeUp,
    ];
    assert_eq!(named, expected);
    // One knob left: its causes are no obstacle.
    let one = check_of(|id| match id {
        FindingId::Irqbalance => bad(),
        _ => FindingState::Ok,
    });
    let ask = BillsAsk::of(&run, Some(&one)).expect("bills");
    assert_eq!(hopeless(&ask), ask.total_ns - 3_000_000);
}

#[test]
fn every_kind_of_cause_stands_somewhere() {
    let mut run = run(1);
    run.explanation = Some(explanation());
    for check in [None, Some(check_of(|_| FindingState::Ok))] {
        let ask = BillsAsk::of(&run, check.as_ref()).expect("bills");
        let knobs = ask.knobs.iter().flat_map(|(_, cost)| &cost.causes);
        let obstacles = ask.obstacles.iter().flat_map(|(_, cost)| &cost.causes);
        let all = knobs.chain(obstacles).chain(&ask.settled.causes);
        let all: Vec<&Cause> = all.collect();
        for cause in causes() {
            assert!(all.contains(&&cause.general()), "{cause:?}");
        }
    }
    run.explanation = None;
    assert_eq!(BillsAsk::of(&run, None), None);
}

#[test]
fn what_may_make_a_run_invalid_stands_first_then_what_the_bills_ask_for() {
    let findings = findings();
    let ids = |asked: &[FindingId]| -> Vec<FindingId> {
        let matter = findings.that_matter(asked);
        matter.iter().map(|finding| finding.id).collect()
    };
    use FindingId as F;
    let usual = ids(&[]);
    assert_eq!(usual[..3], [F::RtprioLimit, F::RtKernel, F::ThreadedNapi]);
    assert!(!usual.contains(&F::SplitLock), "no wake-up waits for it");
    let asked = ids(&[F::IdleStates, F::IsolatedCpus]);
    assert_eq!(asked[..3], [F::RtprioLimit, F::IdleStates, F::IsolatedCpus]);
    assert_eq!(asked.len(), usual.len());
}

#[test]
fn a_record_keeps_the_bad_findings_and_says_how_many_fixes_it_left_out() {
    let many = 40;
    let mut check = check_of(|id| match id {
        FindingId::Ksm | FindingId::Governor => bad(),
        FindingId::Aspm => FindingState::Information { fault: None },
        _ => FindingState::Ok,
    });
    let fix = finding::FindingFix::ByHand;
    for finding in &mut check.findings {
        finding.fixes = vec![fix.clone(); many];
    }
    let kept = RunFindings::of(&check, 80, 5);
    let ids: Vec<FindingId> = kept.bad.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [FindingId::Governor, FindingId::Ksm]);
    assert_eq!(kept.bad[0].fixes.len(), RunFindings::FIXES);
    let left = 2 * (many - RunFindings::FIXES) as u64;
    assert_eq!((kept.left_out, kept.took_ns), (left, 5));
    assert_eq!(kept.bad[0].finding().state, bad());
}

#[test]
fn findings_and_settings_come_back_as_they_were_written_and_too_many_are_refused() {
    let mut whole = run(1);
    whole.findings = Some(findings());
    whole.tuned = tuned();
    let json = serde_json::to_value(&whole).unwrap();
    let read = |json: &serde_json::Value| {
        Run::parse(Path::new("run.json"), json.to_string().as_bytes()).map_err(|e| e.to_string())
    };
    assert_eq!(read(&json).unwrap(), whole);
    let mut old = json.clone();
    for name in ["findings", "tuned"] {
        old.as_object_mut().unwrap().remove(name);
    }
    let old = read(&old).unwrap();
    assert_eq!((old.findings, old.tuned), (None, Vec::new()));
    for (place, value) in [
        ("/findings/cpus", json!([1 << 20])),
        (
            "/findings/bad/0/fixes",
            json!(vec!["by_hand"; RunFindings::FIXES + 1]),
        ),
        (
            "/findings/bad",
            json!(vec![json["findings"]["bad"][0].clone(); 500]),
        ),
    ] {
        let mut broken = json.clone();
        *broken.pointer_mut(place).unwrap() = value;
        let refused = read(&broken).unwrap_err();
        assert!(refused.contains("findings."), "{place}: {refused}");
    }
}

#[test]
fn a_tuned_run_is_not_merged_with_one_as_it_was() {
    let mut changed = run(2);
    changed.tuned = tuned();
    let refused = merge(&[run(1), changed.clone()], false, Vec::new()).unwrap_err();
    let MergeError::Different { differences, .. } = &refused else {
        panic!("{refused}");
    };
    let aspects: Vec<_> = differences.iter().map(|it| it.aspect).collect();
    assert_eq!(aspects, [conditions::Aspect::Tuned]);
    let mut again = run(3);
    again.tuned = tuned();
    let both = merge(&[changed, again], false, Vec::new()).unwrap();
    assert_eq!(both.tuned, tuned());
}
