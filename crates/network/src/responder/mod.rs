//! The responding side: a server that sends each message of a session back.
//!
//! Everything is limited, because others can reach it: connections at a time, connections each
//! second, time for a handshake, bytes of a frame, lengths and rates of messages, length of a session.
//! Nothing is sent to an address that has not proved that it knows the token, except the few bytes of
//! the handshake; replies go to the address that did.

mod greet;
mod lateness;
pub mod privileges;
mod reply;
mod session;

pub use reply::Delay;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use punctual_record::Unavailable;
use punctual_record::path::{ClockState, PeerConditions, ResponderReport, Transport};
use punctual_rt::ring::Consumer;
use punctual_rt::sched::Policy;
use punctual_rt::thread::Refusal as SettingRefused;

use crate::framed::FrameError;
use crate::wire::delays::PeerDelay;
use crate::wire::proof::{Nonces, SessionId, Token};
use crate::wire::session::Refusal;

/// Connections that may be in their handshake at a time.
const GREETED_AT_ONCE: usize = 8;
/// Connections that are taken in each second, after a reserve of as many.
const EACH_SECOND: u32 = 20;
/// How often the listening thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Stack of the threads that greet.
const STACK_BYTES: usize = 256 << 10;

/// What the responder needs to know of its machine, and what it changes on it for a session.
pub trait Machine: Send + Sync {
    /// The machine's name and its kernel.
    fn identity(&self) -> (String, String);
    /// Its clock.
    fn clock(&self) -> ClockState;
    /// Locks memory and bounds idle states.
    fn begin(&self);
    /// The conditions of a thread in force now, and what of its settings was refused.
    fn conditions(&self, tid: i32, policy: Policy, refused: &[SettingRefused]) -> PeerConditions;
    /// Undoes what was changed for the session.
    fn end(&self);
    /// Begins to record what the kernel does, to explain delays of this thread, and of the messages that
    /// come by a device.
    ///
    /// # Errors
    /// Why that can't be.
    fn explain(&self, tid: i32, device: Option<String>) -> Result<Box<dyn Explain>, Unavailable> {
        let _ = (tid, device);
        Err(Unavailable::BuiltWithout)
    }
}

/// Finds out what had the CPU of the replying thread, or of what receives packets, while messages waited
/// for it.
pub trait Explain {
    /// Takes what the kernel recorded since the last round, and explains these delays.
    fn round(&mut self, delays: &mut Consumer<Delay>);
    /// The longest delays of which something is known.
    fn delays(self: Box<Self>) -> Vec<PeerDelay>;
}

/// How the responder serves.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub address: SocketAddr,
    /// What senders must know.
    pub token: Token,
    /// The version of this punctual.
    pub version: String,
    /// The policy of the replying thread.
    pub policy: Policy,
    /// The CPUs that it may use; empty for all.
    pub cpus: Vec<usize>,
    /// The longest message.
    pub most_bytes: u32,
    /// The longest session, in ns.
    pub most_duration_ns: u64,
    /// It answers Ethernet frames too.
    pub raw: bool,
    /// It says what delayed its thread.
    pub explain: bool,
    /// It ends after the first session.
    pub once: bool,
}

/// What the responder tells of what it does.
#[derive(Debug)]
pub enum Notice {
    /// It listens.
    Listening(SocketAddr),
    /// A connection was refused or ended.
    Rejected(SocketAddr, Rejection),
    /// So many connections were dropped at once: too many came.
    Dropped(u64),
    /// A session began.
    Began(SocketAddr, Transport),
    /// Delays of the replying thread are not explained in this session, and why.
    NotExplained(SocketAddr, Unavailable),
    /// A session ended.
    Ended(SocketAddr, SessionEnd, Box<ResponderReport>),
}

/// Why a connection came to nothing.
#[derive(Debug)]
pub enum Rejection {
    /// The handshake failed.
    Frame(FrameError),
    /// It was refused.
    Refused(Refusal),
    /// Another frame came than the one that follows.
    Order,
    /// A call on this machine failed.
    Local(io::Error),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Refused(Refusal::Token) => f.write_str("it does not know the token"),
            Self::Refused(Refusal::Busy) => f.write_str("another session is being served"),
            Self::Refused(Refusal::Protocol { .. }) => {
                f.write_str("it speaks another version of the protocol")
            }
            Self::Refused(refusal) => write!(f, "it asked for {refusal}"),
            Self::Order => f.write_str("it does not keep to the protocol"),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl From<FrameError> for Rejection {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// The sender ended it.
    Completed,
    /// The sender's connection of control ended without a word.
    Vanished,
    /// It lasted as long as a session may.
    TooLong,
    /// This program ends.
    Halted,
    /// The replying thread could not go on.
    Failed(String),
}

/// The session that is being served.
struct Current {
    session: SessionId,
    nonces: Nonces,
    peer: IpAddr,
    /// Takes its connection of data.
    data: SyncSender<TcpStream>,
}

/// What all threads of the responder share.
struct Server {
    config: Config,
    machine: Arc<dyn Machine>,
    current: Mutex<Option<Current>>,
    /// Connections in their handshake.
    greeted: AtomicUsize,
    halt: AtomicBool,
    /// A session was served.
    served: AtomicBool,
    notices: Mutex<std::sync::mpsc::Sender<Notice>>,
}

impl Server {
    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, notice: Notice) {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = notices.send(notice);
    }

    fn is_halted(&self) -> bool {
        self.halt.load(Ordering::Acquire)
    }
}

/// Serves until `is_over`, or until the first session has ended if that was asked for.
///
/// # Errors
/// It cannot listen.
pub fn serve(
    config: Config,
    machine: Arc<dyn Machine>,
    is_over: impl Fn() -> bool,
    mut say: impl FnMut(Notice),
) -> io::Result<()> {
    let listener = TcpListener::bind(config.address)?;
    listener.set_nonblocking(true)?;
    say(Notice::Listening(listener.local_addr()?));
    let (notices, told) = std::sync::mpsc::channel();
    let once = config.once;
    let server = Arc::new(Server {
        config: Config {
            address: listener.local_addr()?,
            ..config
        },
        machine,
        current: Mutex::new(None),
        greeted: AtomicUsize::new(0),
        halt: AtomicBool::new(false),
        served: AtomicBool::new(false),
        notices: Mutex::new(notices),
    });
    let mut gate = Gate::new(Instant::now());
    let mut dropped = 0u64;
    while !(is_over() || once && server.served.load(Ordering::Acquire)) {
        told.try_iter().for_each(&mut say);
        match listener.accept() {
            Ok((stream, peer)) => {
                if !gate.admits(Instant::now()) || !take_in(&server, stream, peer) {
                    dropped += 1;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if dropped > 0 {
                    say(Notice::Dropped(std::mem::take(&mut dropped)));
                }
                wait(&listener);
            }
            // Of the connection, or no file descriptor is left: others may follow.
            Err(_) => thread::sleep(LOOK),
        }
    }
    server.halt.store(true, Ordering::Release);
    // What is under way sees it within its own times.
    let patience = Instant::now() + Duration::from_secs(5);
    while server.greeted.load(Ordering::Acquire) > 0 || server.current().is_some() {
        if Instant::now() > patience {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    told.try_iter().for_each(&mut say);
    Ok(())
}

/// Waits until a connection comes, or for a while.
fn wait(listener: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(LOOK.subsec_nanos()),
    };
    let _ = poll(&mut polled, Some(&timeout));
}

/// Greets a connection in a thread of its own; false if there are too many.
fn take_in(server: &Arc<Server>, stream: TcpStream, peer: SocketAddr) -> bool {
    if server.greeted.fetch_add(1, Ordering::AcqRel) >= GREETED_AT_ONCE {
        server.greeted.fetch_sub(1, Ordering::AcqRel);
        return false;
    }
    let shared = Arc::clone(server);
    let builder = thread::Builder::new().name("greet".to_owned());
    let started = builder.stack_size(STACK_BYTES).spawn(move || {
        let counted = Counted(&shared.greeted);
        if let Err(rejection) = greet::greet(&shared, &stream, peer, counted) {
            shared.say(Notice::Rejected(peer, rejection));
        }
    });
    if started.is_err() {
        server.greeted.fetch_sub(1, Ordering::AcqRel);
    }
    started.is_ok()
}

/// A connection in its handshake; dropped, it no longer counts.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Admits so many connections in each second.
struct Gate {
    left: u32,
    refilled: Instant,
}

impl Gate {
    fn new(now: Instant) -> Self {
        Self {
            left: EACH_SECOND * 2,
            refilled: now,
        }
    }

    fn admits(&mut self, now: Instant) -> bool {
        let each = Duration::from_secs(1) / EACH_SECOND;
        let passed = now.saturating_duration_since(self.refilled);
        let more = (passed.as_nanos() / each.as_nanos()).min(u128::from(EACH_SECOND * 2)) as u32;
        if more > 0 {
            self.refilled = now;
            self.left = (self.left + more).min(EACH_SECOND * 2);
        }
        let admitted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_admitted_at_its_rate_alone() {
        let begin = Instant::now();
        let mut gate = Gate::new(begin);
        let admitted = |gate: &mut Gate, now| (0..1_000).filter(|_| gate.admits(now)).count();
        assert_eq!(admitted(&mut gate, begin), 40);
        assert_eq!(admitted(&mut gate, begin), 0);
        assert_eq!(admitted(&mut gate, begin + Duration::from_secs(1)), 20);
        assert_eq!(admitted(&mut gate, begin + Duration::from_secs(3_600)), 40);
    }
}
