//! Threads that do not run when they should: a thread of higher priority has their CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual_record::path::bill::{MessageCause as Cause, MessageStage as Stage};
use punctual_rt::clock;
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;

use crate::session::{Plan, measure};
use crate::wire::Net;
use crate::{MS, Truth, is_possible, judge, require};

/// Spins on a CPU for 25 ms of each 110, above everything else, until it is done.
pub fn hog(cpu: usize, truth: &Truth, done: &AtomicBool) {
    let (truth, over) = (Arc::clone(truth), Arc::new(AtomicBool::new(false)));
    let its_over = Arc::clone(&over);
    let builder = Builder::new().name("hog").policy(Policy::Fifo(90));
    let hogging = builder.cpus(&[cpu]).spawn(move |_| {
        let mut next_ns = clock::now_ns();
        while !its_over.load(Ordering::Relaxed) {
            next_ns += 110 * MS;
            let _ = clock::sleep_until(next_ns);
            let begin_ns = clock::now_ns();
            while clock::now_ns() < begin_ns + 25 * MS {
                std::hint::spin_loop();
            }
            truth.lock().unwrap().push((begin_ns, clock::now_ns()));
            next_ns = next_ns.max(begin_ns);
        }
    });
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    over.store(true, Ordering::Relaxed);
    hogging.unwrap().join().unwrap();
}

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
    preempted("receiver asleep", 1, &[Stage::PeerWakeUp, Stage::PeerWork]).unwrap();
    preempted(
        "sender preempted",
        1,
        &[Stage::Start, Stage::Send, Stage::WakeUp],
    )
    .unwrap();
}
