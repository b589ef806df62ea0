//! A session between two namespaces, and the bills of its messages.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual_network::bill::{Context, Keeper};
use punctual_network::exchange::Exchange;
use punctual_network::responder::{Config, Machine, Notice, serve};
use punctual_network::sender::connect::Control;
use punctual_network::sender::join::{Joiner, Rules};
use punctual_network::sender::{Readers, Receiver, Sender, Shared, rings};
use punctual_network::wire::proof::Token;
use punctual_network::wire::session::Request;
use punctual_record::path::bill::MessageBill;
use punctual_record::path::{ClockState, PeerConditions, Transport};
use punctual_rt::clock;
use punctual_rt::periodic::{Fixed, Schedule};
use punctual_rt::sched::Policy;
use punctual_rt::thread::{Builder, Refusal};

use crate::wire::Net;

/// What is measured.
pub struct Plan {
    pub size: u32,
    pub interval_ns: u64,
    pub count: u64,
    pub context: Context,
    pub sender_cpu: usize,
    pub responder_cpu: usize,
    pub burst: u32,
    /// Changes the socket of data before the first message.
    pub prepare: fn(&OwnedFd),
}

impl Plan {
    pub fn new(size: u32, interval_ns: u64, count: u64) -> Self {
        Self {
            size,
            interval_ns,
            count,
            context: Context {
                tcp: true,
                slow_start_after_idle: Some(true),
                interval_ns,
                ..Context::default()
            },
            sender_cpu: 0,
            responder_cpu: 0,
            burst: 1,
            prepare: |_| (),
        }
    }
}

/// A message with its bill.
pub type Billed = (Exchange, MessageBill);

struct Quiet;

impl Machine for Quiet {
    fn identity(&self) -> (String, String) {
        ("b".to_owned(), "Linux".to_owned())
    }
    fn clock(&self) -> ClockState {
        ClockState::default()
    }
    fn begin(&self) {}
    fn conditions(&self, _: i32, _: Policy, _: &[Refusal]) -> PeerConditions {
        PeerConditions::default()
    }
    fn end(&self) {}
}

/// Measures, while `inject` runs from the first message on, and returns every message with its bill.
/// `inject` ends when its flag says so.
pub fn measure(
    net: &Net,
    plan: Plan,
    inject: impl FnOnce(&AtomicBool) + Send + 'static,
) -> Vec<Billed> {
    let token = Token::from_random([7; 16]);
    let over = Arc::new(AtomicBool::new(false));
    let (listening, listens) = channel();
    let config = Config {
        address: format!("{}:7001", net.address).parse().unwrap(),
        token: token.clone(),
        version: "test".to_owned(),
        policy: Policy::Fifo(80),
        cpus: vec![plan.responder_cpu],
        most_bytes: 1 << 20,
        most_duration_ns: 60_000_000_000,
        raw: false,
        explain: false,
        once: true,
    };
    let its_over = Arc::clone(&over);
    let responder = net.b.run(move || {
        thread::spawn(move || {
            let is_over = move || its_over.load(Ordering::Relaxed);
            serve(config, Arc::new(Quiet), is_over, |notice| {
                if let Notice::Listening(at) = notice {
                    let _ = listening.send(at);
                }
            })
        })
    });
    let at = listens.recv().unwrap();
    let exchanges = net.a.run(move || exchange(at, &token, plan, inject));
    over.store(true, Ordering::Relaxed);
    responder.join().unwrap().unwrap();
    exchanges
}

fn exchange(
    at: std::net::SocketAddr,
    token: &Token,
    plan: Plan,
    inject: impl FnOnce(&AtomicBool) + Send + 'static,
) -> Vec<Billed> {
    let control = Control::open(&[at], token, "test").unwrap();
    let request = Request {
        transport: Transport::Tcp,
        sizes: vec![plan.size],
        burst: plan.burst,
        interval_ns: plan.interval_ns,
        duration_ns: None,
        stamps: true,
        port: 0,
        ethernet: [0; 6],
    };
    let mut session = control.agree(request).unwrap();
    (plan.prepare)(&session.line.socket);
    let (writers, readers) = rings(plan.interval_ns, plan.burst).unwrap();
    let shared = Shared::new();
    let line = &session.line;
    let mut receiver = Receiver::new(line.clone(), Arc::clone(&shared), writers.received);
    let mut sender = Sender::new(line.clone(), Arc::clone(&shared), writers.sent);
    let real_time = |name: &str| {
        let builder = Builder::new().name(name).policy(Policy::Fifo(80));
        builder.cpus(&[plan.sender_cpu])
    };
    let receiving = real_time("receive").spawn(move |_| receiver.run()).unwrap();
    let start_ns = clock::now_ns() + 30_000_000;
    let end_ns = start_ns + plan.count * plan.interval_ns;
    shared.end_at(end_ns);
    let schedule = Schedule::new(start_ns, Fixed(plan.interval_ns));
    let sending = real_time("send")
        .spawn(move |_| sender.run(schedule))
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let its_done = Arc::clone(&done);
    let injecting = thread::spawn(move || inject(&its_done));
    let exchanges = gather(readers, end_ns, plan.context, &done);
    shared.halt();
    let _ = sending.join().unwrap();
    let _ = receiving.join().unwrap();
    injecting.join().unwrap();
    let _ = session.control.end(Duration::from_secs(5));
    exchanges
}

/// Takes what the threads report until every message has its reply.
fn gather(mut readers: Readers, end_ns: u64, context: Context, done: &AtomicBool) -> Vec<Billed> {
    let mut joiner = Joiner::new(Rules {
        timeout_ns: None,
        late_ns: 0,
        peer_clock: None,
        launch: None,
        connection: context,
    });
    let give_up_ns = end_ns + 5_000_000_000;
    loop {
        thread::sleep(Duration::from_millis(20));
        let now_ns = clock::now_ns();
        readers.sent.drain(|sent| joiner.sent(&sent));
        readers.stamps.drain(|stamped| joiner.stamped(&stamped));
        readers.replies.drain(|received| joiner.received(&received));
        joiner.settle(now_ns, |_| ());
        readers.readings.drain(|reading| joiner.read(&reading));
        if now_ns > end_ns {
            done.store(true, Ordering::Relaxed);
        }
        if now_ns > end_ns + 100_000_000 && joiner.is_settled() || now_ns > give_up_ns {
            break;
        }
    }
    joiner.finish(|_| ());
    let bills = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bills);
    let mut keeper = Keeper::new(0, context);
    keeper.refine_by(Box::new(
        move |exchange: &Exchange, _, bill: &mut MessageBill| {
            kept.lock().unwrap().push((*exchange, bill.clone()));
            false
        },
    ));
    let exchanges = joiner.exchanges();
    exchanges.iter().for_each(|it| keeper.take(it));
    keeper.finish();
    assert!(keeper.bills().is_consistent());
    drop(keeper);
    Arc::into_inner(bills).unwrap().into_inner().unwrap()
}
