//! A thread of NAPI below a real-time thread: only the kernel's events tell it from the wire.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual_record::path::bill::{MessageCause as Cause, MessageStage as Stage};
use punctual_rt::clock;
use punctual_trace::attribute::event::{Event, Window};
use punctual_trace::attribute::message::{Activity, Moments, Recording, divide};
use punctual_trace::capture::{Capture, Options, ring_events};

use crate::hog::hog;
use crate::needs::{self, Absent, need};
use crate::session::{Billed, Plan, measure};
use crate::wire::Net;
use crate::{MS, Truth, alone, judge, prompt_softirqs, require, wired, witness};

/// Records what all CPUs do until it is told to end.
fn record(mut capture: Capture, over: &AtomicBool) -> (Vec<Event>, u64) {
    let (mut all, mut lost, mut from_ns) = (Vec::new(), 0, clock::now_ns());
    loop {
        let is_last = over.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(30));
        // Before the copy: this thread may be preempted after it. What a later copy may still add to
        // is taken then.
        let to_ns = clock::now_ns() - 10 * MS;
        capture.drain();
        let (events, missing) = capture.between(from_ns, to_ns);
        let inside = |event: &Event| (from_ns..to_ns).contains(&event.at_ns);
        all.extend(events.into_iter().filter(inside));
        lost += missing;
        from_ns = to_ns;
        if is_last {
            return (all, lost);
        }
    }
}

/// Makes the device's NAPI threaded, and binds the thread to a CPU, where nothing but the hog is above it.
fn bind_napi(net: &Net, cpu: usize) -> Result<(), String> {
    let script = format!(
        "unshare -m sh -ec 'mount -t sysfs none /sys; echo 1 > /sys/class/net/ta/threaded'
         for tid in $(pgrep '^napi/ta-'); do
             taskset -pc {cpu} $tid > /dev/null; chrt -f -p 60 $tid
         done"
    );
    let done = net.a.run(move || {
        std::process::Command::new("sh")
            .args(["-ec", &script])
            .output()
    });
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Only what received the replies is examined.
struct Around<'a> {
    events: &'a [Event],
    activity: Option<Activity>,
}

impl Recording for Around<'_> {
    fn wake_up(&self, _: u32, _: u64, _: u64) -> Option<Window> {
        None
    }

    fn call(&self, _: u32, _: u64, _: u64) -> Option<Window> {
        None
    }

    fn activity(&mut self, _: u64, _: u64) -> Option<&Activity> {
        let activity = Activity::of(self.events);
        Some(self.activity.insert(activity))
    }
}

fn divided((exchange, bill): &mut Billed, events: &[Event]) {
    let reply = exchange.reply.unwrap();
    let around = (exchange.requested_ns - 40 * MS)..(reply.woke_ns + 10 * MS);
    let first = events.partition_point(|event| event.at_ns < around.start);
    let end = events.partition_point(|event| event.at_ns < around.end);
    let moments = Moments {
        requested_ns: exchange.requested_ns,
        call_ns: exchange.sent.call_begin_ns,
        sent_ns: exchange.sent.software.last(),
        received_ns: reply.rx_software_ns,
        woke_ns: reply.woke_ns,
        ..Moments::default()
    };
    let mut around = Around {
        events: &events[first..end],
        activity: None,
    };
    divide(bill, &moments, &mut around);
}

#[test]
fn a_thread_of_napi_below_a_real_time_thread_is_named_with_what_ran() {
    need!(wired(2));
    need!(needs::tracing());
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let _alone = alone();
    let _prompt = prompt_softirqs();
    let (own, other) = (0, 1);
    let net = Net::with_napi(0, own, Arc::new(|_| false), true).unwrap();
    net.no_loss_probe();
    need!(bind_napi(&net, other).map_err(|error| Absent::refused("threaded NAPI", error)));
    let capture = Capture::start(&Options {
        targets: Vec::new(),
        all_wakings: true,
        interrupt_above_ns: 0,
        cpus: (0..cpus as u32).collect(),
        ring_events: ring_events(cpus),
        roaming: Vec::new(),
    });
    let capture = capture.expect("events of the kernel");
    let over = Arc::new(AtomicBool::new(false));
    let its_over = Arc::clone(&over);
    let recording = thread::spawn(move || record(capture, &its_over));
    let truth: Truth = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&truth);
    let plan = Plan::new(256, 17 * MS, 240);
    let witness = witness();
    let mut all = measure(&net, plan, move |done| hog(other, &noted, done));
    let stalls = witness.stalls();
    drop(witness);
    over.store(true, Ordering::Relaxed);
    let (mut events, lost) = recording.join().unwrap();
    events.sort_by_key(|event| event.at_ns);
    eprintln!("{} events, {lost} lost", events.len());
    for billed in &mut all {
        divided(billed, &events);
    }
    for (_, bill) in &all {
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns);
    }
    let truth = std::mem::take(&mut *truth.lock().unwrap());
    let is_napi = |stage, cause: &Cause| match cause {
        Cause::NapiThread {
            thread,
            by: Some(by),
        } => stage == Stage::Receive && thread.task.starts_with("napi/ta") && by.task == "hog",
        _ => false,
    };
    let name = "threaded NAPI below FIFO";
    let judged = judge(name, &all, &truth, &stalls, 5 * MS, is_napi);
    require(name, judged, 20).unwrap();
}
