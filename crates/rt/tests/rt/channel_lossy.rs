//! What the channel is for: the loss of a last message, between two network namespaces, and two
//! writes under Nagle's algorithm, each compared with a plain socket in interleaved rounds.
#![allow(unsafe_code, reason = "namespaces of a thread, TCP_INFO")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]
#![allow(clippy::print_stdout, reason = "figures for the documentation")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::channel_support::{LONG, any_port, in_time, watchdog};
use crate::needs::{self, Absent, need, skip};
use punctual_rt::channel::{Channel, Listener, Options};
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::task;

const SIZE: usize = 256;
const PLAIN: u16 = 7001;
const CHANNEL: u16 = 7002;

/// Runs a command in the network namespace of the calling thread.
fn command(words: &str, input: &str) -> Result<(), String> {
    let mut words = words.split(' ');
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut to = child.stdin.take().unwrap();
    to.write_all(input.as_bytes())
        .map_err(|error| error.to_string())?;
    drop(to);
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Gives the calling thread a network namespace of its own, which ends with the thread.
fn own_network() -> Result<(), String> {
    // SAFETY: takes a number; only the calling thread gets the new namespace.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => command("ip link set lo up", ""),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
}

/// The threads wait most of the time; a busy machine must not delay them.
fn at_once() {
    let _ = sched::set_current(Policy::Fifo(20));
}

/// Segments that the kernel has sent again.
fn sent_again(socket: RawFd) -> u32 {
    // SAFETY: all-zero bytes are a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    let place = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `length` bytes into the live struct.
    let asked = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            place,
            &mut length,
        )
    };
    assert_eq!(asked, 0);
    info.tcpi_total_retrans
}

fn options() -> Options {
    Options {
        pads: 3,
        ..Options::default()
    }
}

/// The other machine: sends each message back.
fn answer(loss: &str, tell: &Sender<Result<i32, String>>, linked: &Receiver<()>) {
    let ready = own_network().map(|()| task::current_tid());
    let failed = ready.is_err();
    tell.send(ready).unwrap();
    if failed || linked.recv().is_err() {
        return;
    }
    let mut done = command("ip addr add 10.77.9.2/24 dev pb", "");
    done = done.and_then(|()| command("ip link set pb up", ""));
    done = done.and_then(|()| command("nft -f -", loss));
    let at = |port| SocketAddr::from(([10, 77, 9, 2], port));
    let listeners = done.and_then(|()| {
        let plain = TcpListener::bind(at(PLAIN)).map_err(|error| error.to_string())?;
        let ours = Listener::bind(&at(CHANNEL), &options()).map_err(|error| error.to_string())?;
        Ok((plain, ours))
    });
    let (plain, ours) = match listeners {
        Ok(both) => both,
        Err(reason) => return tell.send(Err(reason)).unwrap(),
    };
    tell.send(Ok(0)).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            at_once();
            let (mut peer, _) = plain.accept().unwrap();
            let mut message = [0; SIZE];
            while peer.read_exact(&mut message).is_ok() {
                peer.write_all(&message).unwrap();
            }
        });
        scope.spawn(move || {
            at_once();
            let mut channel = ours.accept(in_time(LONG)).unwrap();
            let (sender, receiver) = channel.halves();
            while let Ok(message) = receiver.receive(u64::MAX) {
                sender.send(message.payload, 0).map(drop).unwrap();
            }
        });
    });
}

/// Times of the exchanges in which a segment was lost, and of all.
#[derive(Default)]
struct Lossy {
    lost: Vec<Duration>,
    all: Vec<Duration>,
}

impl Lossy {
    fn take(&mut self, socket: RawFd, exchange: impl FnOnce()) {
        let (before, begun) = (sent_again(socket), Instant::now());
        exchange();
        let took = begun.elapsed();
        self.all.push(took);
        if sent_again(socket) != before {
            self.lost.push(took);
        }
    }

    fn median(&mut self) -> Duration {
        self.lost.sort_unstable();
        let median = self.lost.get(self.lost.len() / 2);
        median.copied().unwrap_or_default()
    }
}

/// Exchanges with a plain socket and with a channel, in turns, while segments are lost.
fn exchanges(loss: &'static str, rounds: usize) -> Result<(Lossy, Lossy), String> {
    for program in ["ip -V", "nft -v"] {
        command(program, "").map_err(|error| format!("{program}: {error}"))?;
    }
    // The namespace must not be that of the test's own thread.
    let measured = thread::spawn(move || {
        own_network()?;
        let (tell, told) = mpsc::channel();
        let (link, linked) = mpsc::channel();
        let peer = thread::spawn(move || answer(loss, &tell, &linked));
        let there = told.recv().map_err(|error| error.to_string())??;
        command(
            &format!("ip link add pa type veth peer name pb netns {there}"),
            "",
        )?;
        command("ip addr add 10.77.9.1/24 dev pa", "")?;
        command("ip link set pa up", "")?;
        link.send(()).map_err(|error| error.to_string())?;
        told.recv().map_err(|error| error.to_string())??;
        at_once();
        let at = |port| SocketAddr::from(([10, 77, 9, 2], port));
        let mut plain = TcpStream::connect(at(PLAIN)).map_err(|error| error.to_string())?;
        let channel = Channel::connect(&at(CHANNEL), in_time(LONG), &options());
        let mut channel = channel.map_err(|error| error.to_string())?;
        let mut lossy = (Lossy::default(), Lossy::default());
        let mut message = [7; SIZE];
        for _ in 0..rounds {
            lossy.0.take(plain.as_raw_fd(), || {
                plain.write_all(&message).unwrap();
                plain.read_exact(&mut message).unwrap();
            });
            lossy.1.take(channel.as_raw_fd(), || {
                channel.send(&message, 0).map(drop).unwrap();
                let answer = channel.receive(in_time(LONG)).unwrap();
                assert_eq!(answer.payload, message);
            });
        }
        drop((plain, channel));
        peer.join().map_err(|_| "the peer panicked".to_owned())?;
        Ok(lossy)
    });
    measured
        .join()
        .map_err(|_| "the exchanges panicked".to_owned())?
}

/// Every fifth message to the peer is lost, once: what is sent again is the next in the count.
const EVERY_FIFTH: &str = "table inet loss {
 chain input {
  type filter hook input priority 0;
  tcp dport 7001 meta length > 200 numgen inc mod 5 == 4 drop
  tcp dport 7002 meta length > 200 numgen inc mod 5 == 4 drop
 }
}
";

#[test]
fn the_loss_of_a_last_message_costs_a_twentieth_of_a_plain_sockets() {
    let _watchdog = watchdog();
    need!(needs::root());
    need!(needs::program("ip"));
    need!(needs::program("nft"));
    let (mut plain, mut ours) = match exchanges(EVERY_FIFTH, 60) {
        Ok(both) => both,
        Err(reason) => skip!(Absent::refused("two network namespaces with nft", reason)),
    };
    // Of 60 messages and 15 that were sent again every fifth, 15, was lost.
    assert!((14..=16).contains(&plain.lost.len()), "{:?}", plain.lost);
    assert!((14..=16).contains(&ours.lost.len()), "{:?}", ours.lost);
    let (plain, ours) = (plain.median(), ours.median());
    println!("a lost message: plain {plain:?}, channel {ours:?}");
    assert!(plain > 20 * ours, "plain {plain:?}, channel {ours:?}");
}

/// Two in a hundred of all segments to the peer are lost, padding as well: the figures of
/// docs/channel.md.
#[test]
#[ignore = "figures for the documentation: some minutes"]
fn figures_of_random_loss() {
    let (mut plain, mut ours) = exchanges(
        "table inet loss {
 chain input {
  type filter hook input priority 0;
  tcp dport { 7001, 7002 } numgen random mod 100 < 2 drop
 }
}
",
        10_000,
    )
    .unwrap();
    for (name, lossy) in [("plain", &mut plain), ("channel", &mut ours)] {
        let median = lossy.median();
        lossy.all.sort_unstable();
        let at = |per_mille: usize| lossy.all[(lossy.all.len() - 1) * per_mille / 1000];
        println!(
            "{name}: {} exchanges with a loss, median {median:?}; of all: median {:?}, p99 {:?}, \
             p99.9 {:?}, maximum {:?}",
            lossy.lost.len(),
            at(500),
            at(990),
            at(999),
            at(1000)
        );
    }
}

/// Two small messages, then an answer: Nagle's algorithm holds the second back until the first is
/// acknowledged, which the peer delays.
#[test]
fn two_messages_in_a_row_cost_a_twentieth_of_two_writes_of_a_plain_socket() {
    let _watchdog = watchdog();
    let listener = TcpListener::bind(any_port()).unwrap();
    let to_plain = listener.local_addr().unwrap();
    let ours = Listener::bind(&any_port(), &Options::default()).unwrap();
    let to_ours = ours.address().unwrap();
    let peers = thread::spawn(move || {
        at_once();
        let (mut plain, _) = listener.accept().unwrap();
        let mut channel = ours.accept(in_time(LONG)).unwrap();
        let mut message = [0; 2];
        while plain.read_exact(&mut message).is_ok() {
            plain.write_all(&message[..1]).unwrap();
            for byte in &mut message {
                *byte = channel.receive(in_time(LONG)).unwrap().payload[0];
            }
            channel.send(&message, 0).map(drop).unwrap();
        }
    });
    at_once();
    let mut plain = TcpStream::connect(to_plain).unwrap();
    let mut channel = Channel::connect(&to_ours, in_time(LONG), &Options::default()).unwrap();
    let (mut of_plain, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let begun = Instant::now();
        plain.write_all(b"a").unwrap();
        plain.write_all(b"b").unwrap();
        plain.read_exact(&mut [0]).unwrap();
        of_plain.push(begun.elapsed());
        let begun = Instant::now();
        channel.send(b"a", 0).map(drop).unwrap();
        channel.send(b"b", 0).map(drop).unwrap();
        assert_eq!(channel.receive(in_time(LONG)).unwrap().payload, b"ab");
        of_ours.push(begun.elapsed());
    }
    drop(plain);
    peers.join().unwrap();
    of_plain.sort_unstable();
    of_ours.sort_unstable();
    let (plain, ours) = (of_plain[10], of_ours[10]);
    println!("two messages: plain {plain:?}, channel {ours:?}");
    assert!(plain > 20 * ours, "plain {plain:?}, channel {ours:?}");
}
