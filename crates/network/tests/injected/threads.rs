//! Threads that do not run when they should: a thread of higher priority has their CPU.

use std::sync::{Arc, Mutex};

use punctual_record::path::bill::{MessageCause as Cause, MessageStage as Stage};

use crate::hog::hog;
use crate::needs::need;
use crate::session::{Billed, Plan, measure};
use crate::wire::Net;
use crate::{MS, Truth, alone, judge, prompt_softirqs, require, wired, witness};

/// Without those of which nobody can say, without the kernel's events, that the thread did not run: a later
/// message came as the hog ended, and what is read with it has its time stamp.
fn without_doubtful(all: Vec<Billed>, truth: &[(u64, u64)]) -> Vec<Billed> {
    let sent: Vec<u64> = all.iter().map(|it| it.0.requested_ns).collect();
    let is_doubtful = |it: &Billed| {
        let from_ns = it.0.requested_ns;
        let to_ns = from_ns + it.1.latency_ns;
        let ends = truth.iter().map(|it| it.1);
        let mut ends = ends.filter(|end_ns| (from_ns..to_ns).contains(end_ns));
        let just_before =
            |at: &u64, end_ns: u64| *at > from_ns && (*at..*at + MS / 2).contains(&end_ns);
        ends.any(|end_ns| sent.iter().any(|at| just_before(at, end_ns)))
    };
    all.into_iter().filter(|it| !is_doubtful(it)).collect()
}

fn preempted(name: &str, hog_cpu: usize, stages: &'static [Stage]) -> Result<(), String> {
    let other = 1 - hog_cpu;
    let is_sender = stages.contains(&Stage::Start);
    let net = Net::new(0, other, Arc::new(|_| false)).unwrap();
    net.no_loss_probe();
    let truth: Truth = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&truth);
    let mut plan = Plan::new(256, 17 * MS, 300);
    (plan.sender_cpu, plan.responder_cpu) = match is_sender {
        true => (hog_cpu, other),
        false => (other, hog_cpu),
    };
    let witness = witness();
    let all = measure(&net, plan, move |done| hog(hog_cpu, &noted, done));
    let truth = std::mem::take(&mut *truth.lock().unwrap());
    let all = without_doubtful(all, &truth);
    let asleep = Cause::NotScheduled { by: None };
    let expected = |stage, cause: &Cause| *cause == asleep && stages.contains(&stage);
    let judged = judge(name, &all, &truth, &witness.stalls(), 5 * MS, expected);
    require(name, judged, 20)
}

#[test]
fn threads_that_do_not_run_are_named() {
    need!(wired(2));
    let _alone = alone();
    let _prompt = prompt_softirqs();
    preempted("receiver asleep", 1, &[Stage::PeerWakeUp, Stage::PeerWork]).unwrap();
    preempted(
        "sender preempted",
        1,
        &[Stage::Start, Stage::Send, Stage::WakeUp],
    )
    .unwrap();
}
