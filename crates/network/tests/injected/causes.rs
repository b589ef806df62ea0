//! Causes in TCP, in the queue and in the neighbour table. They mostly wait, so that they run at once.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual_network::sys::set_option;
use punctual_record::path::bill::{MessageCause as Cause, MessageStage as Stage};
use punctual_rt::clock;

use crate::needs::need;
use crate::session::{Billed, Plan, measure};
use crate::stalls::Witness;
use crate::wire::{Frame, Net, Rule};
use crate::{MS, Truth, judge, prompt_softirqs, require, wired, witness};

/// The wire of the causes that run at once.
const CPU: usize = 0;

fn truth() -> Truth {
    Arc::new(Mutex::new(Vec::new()))
}

fn taken(truth: &Truth) -> Vec<(u64, u64)> {
    std::mem::take(&mut truth.lock().unwrap())
}

/// Everything passes.
fn all_pass() -> Rule {
    Arc::new(|_| false)
}

fn is_loss(cause: &Cause) -> bool {
    matches!(cause, Cause::LossProbe | Cause::Timeout)
}

/// Every second message alone on the way is lost: only a timer finds that.
fn loss_of_the_last(witness: &Witness) -> Result<(), String> {
    let truth = truth();
    let noted = Arc::clone(&truth);
    let count = AtomicU64::new(0);
    let rule: Rule = Arc::new(move |frame: &Frame| {
        let is_message = frame.there && frame.payload == 777;
        let lost = is_message && count.fetch_add(1, Ordering::Relaxed) % 3 == 1;
        if lost {
            let now_ns = clock::now_ns();
            noted.lock().unwrap().push((now_ns, now_ns + 60 * MS));
        }
        lost
    });
    let net = Net::new(0, CPU, rule).unwrap();
    net.rto_min(40);
    let all = measure(&net, Plan::new(777, 120 * MS, 45), |_| ());
    let expected = |stage, cause: &Cause| stage == Stage::Resend && is_loss(cause);
    let name = "loss of the last";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &taken(&truth), &stalls, 35 * MS, expected);
    require(name, judged, 15)
}

/// The second of five segments is lost: acknowledgements of the others show it.
fn loss_in_the_middle(witness: &Witness) -> Result<(), String> {
    let truth = truth();
    let noted = Arc::clone(&truth);
    let highest = AtomicU32::new(0);
    let fresh = AtomicU64::new(0);
    let rule: Rule = Arc::new(move |frame: &Frame| {
        let is_full = frame.there && frame.payload > 1_400;
        let before = highest.load(Ordering::Relaxed);
        if !is_full || (before != 0 && frame.sequence.wrapping_sub(before).cast_signed() <= 0) {
            return false;
        }
        highest.store(frame.sequence, Ordering::Relaxed);
        // Four full segments each message: the second of every other one.
        let lost = fresh.fetch_add(1, Ordering::Relaxed) % 16 == 9;
        if lost {
            let now_ns = clock::now_ns();
            noted.lock().unwrap().push((now_ns, now_ns + 30 * MS));
        }
        lost
    });
    let net = Net::new(5 * MS, CPU, rule).unwrap();
    let all = measure(&net, Plan::new(7_000, 60 * MS, 100), |_| ());
    let expected = |stage, cause: &Cause| {
        *cause == Cause::FastRetransmit
            && matches!(stage, Stage::PeerWakeUp | Stage::Resend | Stage::Send)
    };
    let name = "loss in the middle";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &taken(&truth), &stalls, 17 * MS, expected);
    require(name, judged, 20)
}

/// Nagle's algorithm on the sender.
fn nagle(socket: &OwnedFd) {
    set_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 0).unwrap();
}

/// The same on the responder, which is in this process: its socket is the other end of this one.
fn nagle_on_the_other_end(socket: &OwnedFd) {
    let own = TcpStream::from(socket.try_clone().unwrap());
    let (own, other) = (own.local_addr().unwrap(), own.peer_addr().unwrap());
    let mut found = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let Ok(end) = crate::netns::duplicate(number) else {
            continue;
        };
        let end = TcpStream::from(end);
        let ends = (end.local_addr().ok(), end.peer_addr().ok());
        if ends == (Some(other), Some(own)) {
            nagle(&end.into());
            found += 1;
        }
    }
    assert_eq!(found, 1, "the responder's socket");
}

/// Those that left this machine only after a third of their latency, by the kernel's time stamps: the others
/// were delayed elsewhere.
fn held_here(all: Vec<Billed>) -> Vec<Billed> {
    let is_held = |it: &Billed| {
        let left_ns = it.0.sent.software.last().unwrap_or(0);
        left_ns.saturating_sub(it.0.sent.call_end_ns) > it.1.latency_ns / 3
    };
    all.into_iter().filter(is_held).collect()
}

/// Small messages within a round trip: each waits until the one before is acknowledged.
fn held_by_nagle(witness: &Witness) -> Result<(), String> {
    let net = Net::new(12 * MS, CPU, all_pass()).unwrap();
    let mut plan = Plan::new(256, 5 * MS, 500);
    plan.prepare = nagle;
    plan.context.nagle = true;
    let all = measure(&net, plan, |_| ());
    let all = held_here(all);
    let everything = [(0, u64::MAX)];
    let expected = |stage, cause: &Cause| stage == Stage::Send && *cause == Cause::Nagle;
    let name = "Nagle";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &everything, &stalls, 37 * MS, expected);
    require(name, judged, 20)
}

/// Two replies at once: the second waits for the acknowledgement of the first, which the sender delays
/// because it has nothing to send.
fn held_by_a_delayed_acknowledgement(witness: &Witness) -> Result<(), String> {
    let net = Net::new(0, CPU, all_pass()).unwrap();
    let mut plan = Plan::new(256, 130 * MS, 40);
    plan.burst = 2;
    plan.prepare = nagle_on_the_other_end;
    plan.context.nagle = true;
    let all = measure(&net, plan, |_| ());
    let everything = [(0, u64::MAX)];
    let expected = |stage, cause: &Cause| stage == Stage::PeerSend && *cause == Cause::DelayedAck;
    let name = "delayed acknowledgement";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &everything, &stalls, 36 * MS, expected);
    require(name, judged, 20)
}

/// 28 segments after idle time: the window of 10 takes three round trips.
fn idle_restart(witness: &Witness) -> Result<(), String> {
    let net = Net::new(5 * MS, CPU, all_pass()).unwrap();
    net.rto_min(40);
    let all = measure(&net, Plan::new(40_000, 180 * MS, 30), |_| ());
    // The first ones make the window grow.
    let everything = [(all[3].0.requested_ns, u64::MAX)];
    // The kernel's estimate of the round trip of 10 ms: where others' threads made it much longer, a wait for
    // an acknowledgement is shorter than that.
    let estimate_us = |it: &Billed| it.0.tcp.map_or(0, |tcp| tcp.state.rtt_us);
    let estimates: Vec<u32> = all.iter().map(estimate_us).collect();
    let is_near = |at: usize| at > 0 && (1..13_000).contains(&estimates[at - 1]);
    let all: Vec<Billed> = all
        .into_iter()
        .enumerate()
        .filter(|(at, _)| is_near(*at))
        .map(|(_, it)| it)
        .collect();
    let expected = |stage, cause: &Cause| {
        *cause == Cause::IdleRestart && matches!(stage, Stage::Send | Stage::PeerSend)
    };
    let name = "idle restart";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &everything, &stalls, 25 * MS, expected);
    require(name, judged, 20)
}

fn small_buffer(socket: &OwnedFd) {
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 4_608).unwrap();
}

/// A message of many times the buffer, which is full with one segment of 64 kB.
fn small_send_buffer(witness: &Witness) -> Result<(), String> {
    let net = Net::new(2 * MS, CPU, all_pass()).unwrap();
    let mut plan = Plan::new(150_000, 160 * MS, 32);
    plan.prepare = small_buffer;
    let all = measure(&net, plan, |_| ());
    // The first ones make the windows grow.
    let everything = [(all[5].0.requested_ns, u64::MAX)];
    let expected = |stage, cause: &Cause| stage == Stage::Send && *cause == Cause::SendBuffer;
    let name = "small buffer";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &everything, &stalls, 15 * MS, expected);
    require(name, judged, 20)
}

/// The neighbour's entry is deleted, and its first request is lost.
fn lost_neighbour(witness: &Witness) -> Result<(), String> {
    let armed = Arc::new(AtomicBool::new(false));
    let its = Arc::clone(&armed);
    let rule: Rule = Arc::new(move |frame: &Frame| {
        frame.there && frame.is_arp && its.swap(false, Ordering::Relaxed)
    });
    let net = Net::new(0, CPU, rule).unwrap();
    net.rto_min(20);
    net.a
        .shell("echo 80 > /proc/sys/net/ipv4/neigh/ta/retrans_time_ms");
    let truth = truth();
    let noted = Arc::clone(&truth);
    let address = net.address.clone();
    let all = measure(&net, Plan::new(256, 20 * MS, 300), move |done| {
        // This thread is in the sender's namespace.
        while !done.load(Ordering::Relaxed) {
            armed.store(true, Ordering::Relaxed);
            let mut delete = std::process::Command::new("ip");
            delete.args(["neigh", "del", &address, "dev", "ta"]);
            let _ = delete.output();
            let now_ns = clock::now_ns();
            noted
                .lock()
                .unwrap()
                .push((now_ns - 20 * MS, now_ns + 110 * MS));
            thread::sleep(Duration::from_millis(250));
        }
    });
    let expected = |stage, cause: &Cause| stage == Stage::Send && *cause == Cause::Neighbour;
    let name = "lost neighbour";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &taken(&truth), &stalls, 40 * MS, expected);
    require(name, judged, 20)
}

/// Bulk data is in the queue of the packet scheduler before the message.
fn bulk_in_the_queue(witness: &Witness) -> Result<(), String> {
    let net = Net::new(0, CPU, all_pass()).unwrap();
    net.a.shell(
        "tc qdisc add dev ta root handle 1: htb default 1
         tc class add dev ta parent 1: classid 1:1 htb rate 20mbit burst 2k cburst 2k
         tc qdisc add dev ta parent 1:1 handle 10: pfifo limit 300",
    );
    let truth = truth();
    let noted = Arc::clone(&truth);
    let (own, other) = (format!("{}.1", net.prefix), net.address.clone());
    let all = measure(&net, Plan::new(256, 11 * MS, 450), move |done| {
        let socket = UdpSocket::bind((&*own, 0)).unwrap();
        while !done.load(Ordering::Relaxed) {
            let begin_ns = clock::now_ns();
            for _ in 0..50 {
                let _ = socket.send_to(&[0; 1400], (&*other, 9));
            }
            // 72 kB at 20 Mbit/s.
            noted.lock().unwrap().push((begin_ns, begin_ns + 29 * MS));
            thread::sleep(Duration::from_millis(110));
        }
    });
    let expected = |stage, cause: &Cause| {
        *cause == Cause::Queue && matches!(stage, Stage::Send | Stage::Queue)
    };
    let all = held_here(all);
    let name = "bulk in the queue";
    let stalls = witness.stalls();
    let judged = judge(name, &all, &taken(&truth), &stalls, 10 * MS, expected);
    require(name, judged, 20)
}

/// Injects a cause; an error says what was not named.
type Injection = fn(&Witness) -> Result<(), String>;

#[test]
fn causes_in_tcp_and_below_it_are_named() {
    need!(wired(1));
    let causes: [Injection; 8] = [
        loss_of_the_last,
        loss_in_the_middle,
        held_by_nagle,
        held_by_a_delayed_acknowledgement,
        idle_restart,
        small_send_buffer,
        lost_neighbour,
        bulk_in_the_queue,
    ];
    let witness = &witness();
    let _prompt = prompt_softirqs();
    let faults: Vec<String> = thread::scope(|scope| {
        let running = causes.map(|cause| scope.spawn(move || cause(witness)));
        let results = running.into_iter().map(|it| it.join().unwrap());
        results.filter_map(Result::err).collect()
    });
    assert!(faults.is_empty(), "{faults:#?}");
}
