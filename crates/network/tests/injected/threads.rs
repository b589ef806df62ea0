//! Threads that do not run when they should: a thread of higher priority has their CPU.

use std::sync::{Arc, Mutex};

use punctual_record::path::bill::{MessageCause as Cause, MessageStage as Stage};

use crate::hog::hog;
use crate::session::{Plan, measure};
use crate::wire::Net;
use crate::{MS, Truth, alone, is_possible, judge, require};

fn preempted(name: &str, hog_cpu: usize, stages: &'static [Stage]) -> Result<(), String> {
    let other = 1 - hog_cpu;
    let is_sender = stages.contains(&Stage::Start);
    let net = Net::new(0, other, Arc::new(|_| false)).unwrap();
    let truth: Truth = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&truth);
    let mut plan = Plan::new(256, 17 * MS, 300);
    (plan.sender_cpu, plan.responder_cpu) = match is_sender {
        true => (hog_cpu, other),
        false => (other, hog_cpu),
    };
    let all = measure(&net, plan, move |done| hog(hog_cpu, &noted, done));
    let truth = std::mem::take(&mut *truth.lock().unwrap());
    let asleep = Cause::NotScheduled { by: None };
    let expected = |stage, cause: &Cause| *cause == asleep && stages.contains(&stage);
    require(name, judge(name, &all, &truth, 5 * MS, expected), 20)
}

#[test]
fn threads_that_do_not_run_are_named() {
    if !is_possible() {
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        eprintln!("SKIPPED: one CPU");
        return;
    }
    let _alone = alone();
    preempted("receiver asleep", 1, &[Stage::PeerWakeUp, Stage::PeerWork]).unwrap();
    preempted(
        "sender preempted",
        1,
        &[Stage::Start, Stage::Send, Stage::WakeUp],
    )
    .unwrap();
}
