//! Whole sessions over the loopback interface: a responder, and a sender or what pretends to be one.
//!
//! Nothing here has real-time priority, and no test asserts a latency.

#[path = "sessions/hostile.rs"]
mod hostile;

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use punctual_network::framed;
use punctual_network::responder::{Config, Machine, Notice, Rejection, SessionEnd, serve};
use punctual_network::sender::connect::{ConnectError, Control, Session};
use punctual_network::sender::join::{Joiner, Rules};
use punctual_network::sender::{Ended, Receiver, Sender, Shared, rings};
use punctual_network::wire::PROTOCOL;
use punctual_network::wire::control::Frame;
use punctual_network::wire::proof::{Nonces, Token, What};
use punctual_network::wire::session::{Limit, Refusal, Request};
use punctual_record::path::{ClockState, PathCounts, PeerConditions, ResponderReport, Transport};
use punctual_rt::clock;
use punctual_rt::periodic::{Fixed, Schedule};
use punctual_rt::sched::Policy;
use punctual_rt::thread::Refusal as SettingRefused;

const TOKEN: &str = "0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(20);

struct Nothing(Arc<Mutex<(u32, u32)>>);

impl Machine for Nothing {
    fn identity(&self) -> (String, String) {
        ("there".to_owned(), "6.1".to_owned())
    }
    fn clock(&self) -> ClockState {
        ClockState::default()
    }
    fn begin(&self) {
        self.0.lock().unwrap().0 += 1;
    }
    fn conditions(&self, _: i32, _: Policy, _: &[SettingRefused]) -> PeerConditions {
        PeerConditions::default()
    }
    fn end(&self) {
        self.0.lock().unwrap().1 += 1;
    }
}

/// A responder in this process.
struct Responder {
    at: SocketAddr,
    halt: Arc<AtomicBool>,
    notices: mpsc::Receiver<Notice>,
    begun: Arc<Mutex<(u32, u32)>>,
    thread: Option<JoinHandle<()>>,
}

fn responder() -> Responder {
    let halt = Arc::new(AtomicBool::new(false));
    let begun = Arc::<Mutex<(u32, u32)>>::default();
    let (tell, notices) = mpsc::channel();
    let (its_halt, machine) = (Arc::clone(&halt), Arc::new(Nothing(Arc::clone(&begun))));
    let config = Config {
        address: ([127, 0, 0, 1], 0).into(),
        token: Token::parse(TOKEN).unwrap(),
        version: "9.9.9".to_owned(),
        policy: Policy::Other,
        cpus: Vec::new(),
        most_bytes: 4096,
        most_duration_ns: 3_600_000_000_000,
        raw: false,
        explain: false,
        once: false,
    };
    let thread = thread::spawn(move || {
        let is_over = || its_halt.load(Ordering::Acquire);
        serve(config, machine, is_over, |notice| {
            let _ = tell.send(notice);
        })
        .unwrap();
    });
    let Notice::Listening(at) = notices.recv_timeout(PATIENCE).unwrap() else {
        panic!("it listens first");
    };
    Responder {
        at,
        halt,
        notices,
        begun,
        thread: Some(thread),
    }
}

impl Responder {
    fn notice(&self) -> Notice {
        self.notices.recv_timeout(PATIENCE).expect("a notice")
    }

    fn rejection(&self) -> Rejection {
        match self.notice() {
            Notice::Rejected(_, why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// It began a session, and how that ended.
    fn session(&self) -> (SessionEnd, ResponderReport) {
        loop {
            if let Notice::Ended(_, end, report) = self.notice() {
                return (end, *report);
            }
        }
    }

    fn control(&self) -> Control {
        let token = Token::parse(TOKEN).unwrap();
        Control::open(&[self.at], &token, "1.2.3").unwrap()
    }

    fn agree(&self, transport: Transport, sizes: &[u32]) -> Session {
        self.control().agree(request(transport, sizes)).unwrap()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.halt.store(true, Ordering::Release);
        let joined = self.thread.take().unwrap().join();
        assert!(joined.is_ok() || thread::panicking());
        let (begun, ended) = *self.begun.lock().unwrap();
        assert_eq!(begun, ended, "what a session changes is restored");
    }
}

fn request(transport: Transport, sizes: &[u32]) -> Request {
    Request {
        transport,
        sizes: sizes.to_vec(),
        burst: 1,
        interval_ns: 1_000_000,
        duration_ns: Some(60_000_000_000),
        stamps: true,
        port: 0,
        ethernet: [0; 6],
    }
}

/// Sends messages for a while, and returns what became of them.
struct Made {
    counts: PathCounts,
    fates: Vec<(u64, Option<u64>)>,
    exchanges: Vec<punctual_network::Exchange>,
    ended: [Ended; 2],
    report: Result<ResponderReport, ConnectError>,
}

fn measure(session: Session, interval_ns: u64, instants: u64, meanwhile: impl FnOnce()) -> Made {
    // The first message is due after one interval.
    let from_ns = clock::now_ns() + 5_000_000;
    measure_from(
        session,
        (from_ns, from_ns + interval_ns),
        interval_ns,
        instants,
        meanwhile,
    )
}

/// With a warm-up from one instant on: messages that are due at the other or later count.
fn measure_from(
    session: Session,
    (from_ns, start_ns): (u64, u64),
    interval_ns: u64,
    instants: u64,
    meanwhile: impl FnOnce(),
) -> Made {
    let Session {
        mut control, line, ..
    } = session;
    let transport = line.transport;
    let (writers, mut readers) = rings(interval_ns, line.burst).unwrap();
    let shared = Shared::new();
    let mut sender = Sender::new(line.clone(), Arc::clone(&shared), writers.sent);
    let mut receiver = Receiver::new(line, Arc::clone(&shared), writers.received);
    shared.count_from(start_ns);
    shared.end_at(start_ns + interval_ns * instants);
    let sending = thread::spawn(move || sender.run(Schedule::new(from_ns, Fixed(interval_ns))));
    let receiving = thread::spawn(move || receiver.run());
    meanwhile();
    let sent = sending.join().unwrap();
    let mut joiner = Joiner::new(Rules {
        timeout_ns: (transport != Transport::Tcp).then_some(500_000_000),
        late_ns: 0,
        peer_clock: None,
        launch: None,
        connection: punctual_network::bill::Context::default(),
    });
    joiner.count_from(start_ns);
    let mut fates = Vec::new();
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let now_ns = clock::now_ns();
        let mut replies = Vec::new();
        readers.replies.drain(|it| replies.push(it));
        let (mut stamps, mut readings) = (Vec::new(), Vec::new());
        readers.stamps.drain(|it| stamps.push(it));
        readers.readings.drain(|it| readings.push(it));
        readers.sent.drain(|it| joiner.sent(&it));
        stamps.iter().for_each(|it| joiner.stamped(it));
        readings.iter().for_each(|it| joiner.read(it));
        replies.iter().for_each(|it| joiner.received(it));
        joiner.settle(now_ns, |it| fates.push((it.requested_ns, it.replied_ns)));
        if (joiner.is_settled() && fates.len() as u64 == shared.sent())
            || Instant::now() > patience
            || receiving.is_finished()
        {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    joiner.finish(|it| fates.push((it.requested_ns, it.replied_ns)));
    fates.retain(|(requested_ns, _)| *requested_ns >= start_ns);
    shared.halt();
    let received = receiving.join().unwrap();
    assert_eq!(readers.lost(), 0);
    let report = control
        .end(Duration::from_secs(5))
        .map(|(report, _)| report);
    Made {
        counts: joiner.counts(),
        exchanges: joiner.exchanges(),
        fates,
        ended: [sent, received],
        report,
    }
}

/// Every instant of the grid is accounted for, once, and in order.
fn assert_complete(made: &Made, instants: u64, burst: u64) {
    let counts = made.counts;
    assert_eq!(
        counts.replies + counts.lost + counts.skipped,
        instants * burst,
        "{counts:?}"
    );
    assert_eq!(made.fates.len() as u64, counts.replies + counts.lost);
    assert!(made.fates.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let early = |fate: &&(u64, Option<u64>)| fate.1.is_some_and(|replied| replied < fate.0);
    assert_eq!(made.fates.iter().find(early), None);
    assert_eq!((counts.foreign, counts.duplicates), (0, 0));
}

/// Whoever starts the sender was late: the warm-up's first message is sent after its end.
#[test]
fn a_late_start_skips_instants_and_every_one_of_them_counts() {
    let responder = responder();
    let session = responder.agree(Transport::Udp, &[64]);
    let interval_ns = 1_000_000;
    let from_ns = clock::now_ns() - 40 * interval_ns;
    let start_ns = from_ns + 16 * interval_ns;
    let made = measure_from(session, (from_ns, start_ns), interval_ns, 100, || ());
    assert_complete(&made, 100, 1);
    assert!(made.counts.skipped >= 20, "{:?}", made.counts);
    // The first that counts is late by what was late.
    let late_ns = made.exchanges[0].sent.call_begin_ns - start_ns;
    assert!(late_ns >= 24 * interval_ns, "{late_ns}");
    assert_eq!(made.exchanges[0].requested_ns, start_ns);
}

#[test]
fn every_message_over_tcp_has_its_reply_and_its_stages() {
    let responder = responder();
    let session = responder.agree(Transport::Tcp, &[64, 1400, 96]);
    assert_eq!(session.control.version, "9.9.9");
    assert_eq!(session.ready.hostname, "there");
    let stamped = session.line.tx_stamps;
    let made = measure(session, 1_000_000, 200, || ());
    assert_complete(&made, 200, 1);
    assert_eq!(made.counts.lost, 0);
    assert!(
        matches!(made.ended, [Ended::Completed, Ended::Completed]),
        "{:?}",
        made.ended
    );
    let report = made.report.unwrap();
    assert_eq!(
        (report.received, report.replied),
        (made.counts.sent, made.counts.sent)
    );
    assert_eq!(report.turnaround.count, made.counts.sent);
    let (end, told) = responder.session();
    assert_eq!((end, told), (SessionEnd::Completed, report));
    // Sizes take turns.
    let sizes: Vec<u32> = made.exchanges.iter().take(4).map(|it| it.size).collect();
    assert_eq!(sizes, [64, 1400, 96, 64]);
    for exchange in &made.exchanges {
        let sent = &exchange.sent;
        assert!(sent.call_begin_ns >= exchange.requested_ns);
        assert!(sent.call_end_ns >= sent.call_begin_ns);
        let peer = exchange.peer.unwrap();
        assert!(peer.send_begin_ns >= peer.woke_ns);
        assert!(peer.rx_software_ns.is_none_or(|rx| rx <= peer.woke_ns));
    }
    if stamped {
        let complete = made.exchanges.iter().filter(|it| {
            let sent = &it.sent;
            let peer = it.peer.unwrap();
            sent.software.count > 0
                && sent.scheduled.count > 0
                && sent.acknowledged_ns.is_some()
                && it.tcp.is_some()
                && peer.software.count > 0
                && it.peer_tcp.is_some()
        });
        // Of the last few the responder had no later reply to say it in; with messages on their
        // heels, a few more have none.
        let (complete, all) = (complete.count(), made.exchanges.len());
        assert!(complete * 2 > all, "{complete} of {all}");
    }
}

#[test]
fn bursts_over_udp_are_answered_each() {
    let responder = responder();
    let mut asked = request(Transport::Udp, &[128]);
    asked.burst = 5;
    let session = responder.control().agree(asked).unwrap();
    let made = measure(session, 2_000_000, 50, || ());
    assert_complete(&made, 50, 5);
    let report = made.report.unwrap();
    assert_eq!(report.received, made.counts.sent);
    assert_eq!(report.foreign, 0);
    assert_eq!(responder.session().0, SessionEnd::Completed);
}

#[test]
fn strangers_cannot_reach_a_session_over_udp() {
    let responder = responder();
    let session = responder.agree(Transport::Udp, &[128]);
    let at = responder.at;
    let made = measure(session, 1_000_000, 100, move || {
        let stranger = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        for length in [0, 1, 24, 128, 1400] {
            stranger.send_to(&vec![7; length], at).unwrap();
        }
        stranger
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        assert!(
            stranger.recv(&mut [0; 2000]).is_err(),
            "no reply to a stranger"
        );
    });
    assert_complete(&made, 100, 1);
    // The kernel keeps them away from the connected socket.
    assert_eq!(made.report.unwrap().foreign, 0);
}

#[test]
fn what_is_asked_for_beyond_the_limits_is_refused_with_the_limit() {
    let responder = responder();
    let refused = |change: fn(&mut Request)| {
        let mut asked = request(Transport::Tcp, &[256]);
        change(&mut asked);
        match responder.control().agree(asked) {
            Err(ConnectError::Refused(_, Refusal::Limit { what, bound })) => {
                assert!(matches!(responder.rejection(), Rejection::Refused(_)));
                (what, bound)
            }
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("agreed"),
        }
    };
    assert_eq!(
        refused(|it| it.sizes = vec![8192]),
        (Limit::MostBytes, 4096)
    );
    assert_eq!(refused(|it| it.sizes = vec![8]), (Limit::LeastBytes, 64));
    assert_eq!(refused(|it| it.sizes = Vec::new()), (Limit::Sizes, 16));
    assert_eq!(refused(|it| it.burst = 0), (Limit::Burst, 1024));
    assert_eq!(refused(|it| it.interval_ns = 1), (Limit::Interval, 1000));
    let long = refused(|it| it.duration_ns = Some(u64::MAX));
    assert_eq!(long, (Limit::Duration, 3_600_000_000_000));
    let raw = responder.control().agree(request(Transport::Raw, &[256]));
    let Err(ConnectError::Local(error)) = raw else {
        panic!("agreed");
    };
    let why = "127.0.0.1: no Ethernet interface of this machine has this address";
    assert_eq!(error.to_string(), why);
}

#[test]
fn one_session_at_a_time_and_the_next_after_it() {
    let responder = responder();
    let first = responder.agree(Transport::Tcp, &[256]);
    let second = responder.control().agree(request(Transport::Tcp, &[256]));
    assert!(matches!(
        second,
        Err(ConnectError::Refused(_, Refusal::Busy))
    ));
    let made = measure(first, 1_000_000, 20, || ());
    assert!(made.report.is_ok());
    assert_eq!(responder.session().0, SessionEnd::Completed);
    // The slot is free a moment after the report.
    let until = Instant::now() + PATIENCE;
    let third = loop {
        match responder.control().agree(request(Transport::Tcp, &[256])) {
            Err(ConnectError::Refused(_, Refusal::Busy)) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(20));
            }
            other => break other.unwrap(),
        }
    };
    assert!(measure(third, 1_000_000, 20, || ()).report.is_ok());
}

#[test]
fn a_wrong_token_and_another_version_are_told_so() {
    let responder = responder();
    let wrong = Token::parse("fedcba9876543210").unwrap();
    let error = Control::open(&[responder.at], &wrong, "1").err().unwrap();
    assert!(
        matches!(error, ConnectError::Refused(_, Refusal::Token)),
        "{error}"
    );
    assert!(error.to_string().contains("--token-file"), "{error}");
    assert!(matches!(
        responder.rejection(),
        Rejection::Refused(Refusal::Token)
    ));

    let stream = TcpStream::connect(responder.at).unwrap();
    // Whatever follows the version: it is not known.
    let mut hello = Frame::Hello {
        protocol: PROTOCOL + 1,
        version: "x".to_owned(),
        nonce: [0; 32],
    }
    .to_bytes();
    hello.extend([1, 2, 3]);
    let length = (hello.len() - 2) as u16;
    hello[..2].copy_from_slice(&length.to_be_bytes());
    (&stream).write_all(&hello).unwrap();
    let answer = framed::read(&stream, Instant::now() + PATIENCE).unwrap();
    assert_eq!(
        answer,
        Frame::Refused(Refusal::Protocol { spoken: PROTOCOL })
    );
}

#[test]
fn an_impostor_that_does_not_know_the_token_gets_no_session() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let impostor = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let until = Instant::now() + PATIENCE;
        framed::read(&stream, until).unwrap();
        let challenge = Frame::Challenge {
            version: "1".to_owned(),
            nonce: [1; 32],
        };
        framed::write(&stream, &challenge, PATIENCE).unwrap();
        framed::read(&stream, until).unwrap();
        framed::write(&stream, &Frame::Welcome([0; 32]), PATIENCE).unwrap();
        let _ = framed::read(&stream, until);
    });
    let token = Token::parse(TOKEN).unwrap();
    let error = Control::open(&[at], &token, "1").err().unwrap();
    assert!(matches!(error, ConnectError::Impostor(_)), "{error}");
    impostor.join().unwrap();
    let error = Control::open(&[at], &token, "1").err().unwrap();
    assert!(
        error
            .to_string()
            .contains("start `punctual respond 127.0.0.1` there"),
        "{error}"
    );
}
