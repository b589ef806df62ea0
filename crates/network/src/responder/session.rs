//! One session, from its request to its report.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use punctual_record::path::{PeerConditions, ResponderReport, Transport};
use punctual_rt::memory::Disturbances;
use punctual_rt::ring::{Consumer, try_ring};
use punctual_rt::thread::{Builder, Handle};
use rustix::net::Shutdown;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::greet::{WRITE, refuse};
use super::reply::{Delay, Ended, Line, Replier};
use super::{Current, Explain, Notice, Rejection, Server, SessionEnd};
use crate::framed::{self, FrameError};
use crate::numeric::at_port;
use crate::sender::join::figures;
use crate::sys;
use crate::sys::frame::{self, Destination, Interface};
use crate::wire::control::Frame;
use crate::wire::delays::frames_of;
use crate::wire::proof::{Nonces, SessionId};
use crate::wire::session::{Accepted, Ready, Refusal, Request};

/// How long the connection of data may take to come.
const JOIN: Duration = Duration::from_secs(5);
/// How often a session looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// How much longer than its length a session may last: what is late still comes.
const GRACE: Duration = Duration::from_secs(60);
/// Messages that came late or waited, and may wait for their explanation.
const DELAYS: usize = 1 << 12;
/// How long the replying thread may take to end.
const END_WITHIN_NS: u64 = 2_000_000_000;

/// What the replying thread returns.
struct Replied {
    ended: Ended,
    replier: Box<Replier>,
    disturbances: Option<Disturbances>,
}

/// The slot of the one session; dropped, another may begin.
struct Claim<'a>(&'a Server);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.current().take();
    }
}

/// What is known of delays on this machine.
struct Explaining<'a> {
    explain: Box<dyn Explain>,
    delays: &'a mut Consumer<Delay>,
}

impl Explaining<'_> {
    fn round(&mut self) {
        self.explain.round(self.delays);
    }
}

/// Serves the session that was asked for.
pub(super) fn serve(
    server: &Arc<Server>,
    stream: &TcpStream,
    peer: SocketAddr,
    nonces: Nonces,
    request: Request,
) -> Result<(), Rejection> {
    let config = &server.config;
    if let Err(why) = request.check(config.most_bytes, config.most_duration_ns) {
        return Err(refuse(stream, why));
    }
    let session: SessionId = framed::random().map_err(Rejection::Local)?;
    let tag = framed::random().map(u32::from_be_bytes);
    let tag = tag.map_err(Rejection::Local)?;
    let (data, joined) = sync_channel(1);
    let claim = {
        let mut current = server.current();
        if current.is_some() || server.is_halted() {
            drop(current);
            return Err(refuse(stream, Refusal::Busy));
        }
        *current = Some(Current {
            session,
            nonces,
            peer: peer.ip(),
            data,
        });
        Claim(server)
    };
    let unable = |error: io::Error| {
        refuse(
            stream,
            Refusal::Unable {
                why: error.to_string(),
            },
        )
    };
    let mut accepted = Accepted {
        session,
        tag,
        port: config.address.port(),
        ethernet: [0; 6],
    };
    let (opened, to) = match request.transport {
        Transport::Tcp => (None, None),
        Transport::Udp => {
            let socket = open_udp(config.address, peer, request.port).map_err(unable)?;
            (Some(socket), None)
        }
        Transport::Raw if !config.raw => {
            let why = "it answers no Ethernet frames: start it with --raw".to_owned();
            return Err(refuse(stream, Refusal::Unable { why }));
        }
        Transport::Raw => {
            let (socket, interface) = open_raw(stream, request.ethernet).map_err(unable)?;
            accepted.ethernet = interface.address;
            let to = Destination {
                interface: interface.index,
                address: request.ethernet,
            };
            (Some(socket), Some(to))
        }
    };
    framed::write(stream, &Frame::Accepted(accepted), WRITE)?;
    let socket = match opened {
        Some(socket) => socket,
        None => wait_for_data(stream, &joined)?,
    };
    set_socket_timeout(&socket, Timeout::Recv, Some(LOOK))
        .map_err(|error| Rejection::Local(error.into()))?;
    let (rx_stamps, tx_stamps) = match request.stamps {
        true => sys::enable_stamps(socket.as_fd(), request.transport == Transport::Tcp, false),
        false => (false, false),
    };
    let line = Line {
        socket: Arc::new(socket),
        transport: request.transport,
        tag,
        longest: request.sizes.iter().copied().max().unwrap_or(0) as usize,
        tx_stamps,
        to,
    };
    server.machine.begin();
    let outcome = reply(server, stream, peer, &request, line, (rx_stamps, tx_stamps));
    server.machine.end();
    drop(claim);
    server.served.store(true, Ordering::Release);
    outcome
}

/// The socket of a session over UDP: only the sender's address can reach it.
fn open_udp(own: SocketAddr, peer: SocketAddr, port: u16) -> io::Result<OwnedFd> {
    let socket = UdpSocket::bind(own)?;
    sys::make_room(socket.as_fd());
    socket.connect(at_port(peer, port))?;
    Ok(socket.into())
}

/// The socket of a session of Ethernet frames, on the interface by which the sender connected: only
/// frames from the sender's address pass.
fn open_raw(stream: &TcpStream, from: frame::Address) -> io::Result<(OwnedFd, Interface)> {
    let interface = frame::interface_with(stream.local_addr()?.ip())?;
    let socket = frame::open()?;
    sys::make_room(socket.as_fd());
    frame::receive_from(socket.as_fd(), &interface, from)?;
    Ok((socket, interface))
}

/// Waits for the connection of data.
fn wait_for_data(control: &TcpStream, joined: &Receiver<TcpStream>) -> Result<OwnedFd, Rejection> {
    let late = |_| Rejection::Frame(FrameError::Late);
    let stream = match joined.recv_timeout(JOIN).map_err(late) {
        Ok(stream) => stream,
        Err(rejection) => {
            let why = "no connection of data came".to_owned();
            refuse(control, Refusal::Unable { why });
            return Err(rejection);
        }
    };
    framed::write(&stream, &Frame::Joined, WRITE)?;
    Ok(stream.into())
}

/// Starts the replying thread, waits for the end of the session, and reports.
fn reply(
    server: &Server,
    stream: &TcpStream,
    peer: SocketAddr,
    request: &Request,
    line: Line,
    (rx_stamps, tx_stamps): (bool, bool),
) -> Result<(), Rejection> {
    let config = &server.config;
    let halt = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let (producer, mut delays) = match config.explain {
        true => try_ring(DELAYS).map(|(ours, its)| (Some(ours), Some(its))),
        false => Ok((None, None)),
    }
    .map_err(Rejection::Local)?;
    let replier = Replier::new(line, Arc::clone(&halt)).with_delays(producer);
    let mut replier = Box::new(replier);
    let (tell, told) = sync_channel(1);
    let its_over = Arc::clone(&over);
    let builder = Builder::new().name("respond").policy(config.policy);
    let handle = builder.cpus(&config.cpus).spawn(move |setup| {
        let _ = tell.send((setup.tid, setup.refused));
        let before = Disturbances::of_this_thread();
        let ended = replier.run();
        if !matches!(ended, Ended::Halted) {
            // The sender sees it at once.
            let _ = rustix::net::shutdown(&*replier.line.socket, Shutdown::Both);
        }
        let after = Disturbances::of_this_thread();
        let disturbances = after.and_then(|now| Ok(now.since(&before?))).ok();
        its_over.store(true, Ordering::Release);
        Replied {
            ended,
            replier,
            disturbances,
        }
    });
    let handle = handle.map_err(|error| {
        let why = error.to_string();
        refuse(stream, Refusal::Unable { why })
    })?;
    let (tid, refused) = told.recv().map_err(|_| Rejection::Order)?;
    let conditions = || PeerConditions {
        rx_stamps,
        tx_stamps,
        ..server.machine.conditions(tid, config.policy, &refused)
    };
    let mut explaining = delays.as_mut().and_then(|delays| {
        let explain = server
            .machine
            .explain(tid, device_of(stream))
            .map_err(|why| {
                server.say(Notice::NotExplained(peer, why));
            });
        Some(Explaining {
            explain: explain.ok()?,
            delays,
        })
    });
    let (hostname, kernel) = server.machine.identity();
    let ready = Ready {
        hostname,
        kernel,
        conditions: conditions(),
        clock: server.machine.clock(),
        real_offset_ns: sys::real_offset_ns(),
        explains: explaining.is_some(),
    };
    let greeted = framed::write(stream, &Frame::Ready(Box::new(ready)), WRITE);
    if greeted.is_ok() {
        server.say(Notice::Began(peer, request.transport));
    }
    let mut end = match &greeted {
        Ok(()) => until_over(server, stream, request, &over, explaining.as_mut()),
        Err(_) => SessionEnd::Vanished,
    };
    // While the thread lives.
    let conditions = conditions();
    halt.store(true, Ordering::Release);
    let Some(replied) = join(handle) else {
        return Err(Rejection::Order);
    };
    match replied.ended {
        Ended::Halted | Ended::Closed => {}
        Ended::Garbled => end = SessionEnd::Failed("data that is no message".to_owned()),
        Ended::Failed(error) => end = SessionEnd::Failed(error.to_string()),
    }
    if let Some(mut explaining) = explaining {
        explaining.round();
        for group in frames_of(explaining.explain.delays()) {
            let _ = framed::write(stream, &Frame::Delays(group), WRITE);
        }
    }
    let report = report(&replied.replier, conditions, replied.disturbances);
    let frame = Frame::Report(Box::new(report.clone()));
    let _ = framed::write(stream, &frame, WRITE);
    server.say(Notice::Ended(peer, end, Box::new(report)));
    Ok(())
}

/// The Ethernet interface by which the sender connected, if it is known.
fn device_of(stream: &TcpStream) -> Option<String> {
    let ip = stream.local_addr().ok()?.ip();
    frame::interface_with(ip).ok().map(|it| it.name)
}

fn join(handle: Handle<Replied>) -> Option<Replied> {
    let until_ns = punctual_rt::clock::now_ns().saturating_add(END_WITHIN_NS);
    match handle.join_until(until_ns) {
        Ok(replied) => replied.ok(),
        Err(handle) => {
            handle.detach();
            None
        }
    }
}

/// Waits until the session ends.
fn until_over(
    server: &Server,
    stream: &TcpStream,
    request: &Request,
    over: &AtomicBool,
    mut explaining: Option<&mut Explaining<'_>>,
) -> SessionEnd {
    let _ = sys::keep_alive(stream.as_fd());
    let most_ns = server.config.most_duration_ns;
    let length = request.duration_ns.unwrap_or(most_ns).min(most_ns);
    let until = Instant::now() + Duration::from_nanos(length) + GRACE;
    let mut broken_at = None;
    loop {
        if server.is_halted() {
            return SessionEnd::Halted;
        }
        let now = Instant::now();
        if now > until {
            return SessionEnd::TooLong;
        }
        // The sender says so itself if it still can.
        if over.load(Ordering::Acquire) && now > *broken_at.get_or_insert(now + GRACE) {
            return SessionEnd::Vanished;
        }
        if let Some(explaining) = &mut explaining {
            explaining.round();
        }
        if !has_word(stream) {
            continue;
        }
        return match framed::read(stream, Instant::now() + WRITE) {
            Ok(Frame::End) => SessionEnd::Completed,
            Ok(_) | Err(_) => SessionEnd::Vanished,
        };
    }
}

/// Waits a while for the first byte of a frame, or the end of the connection.
fn has_word(stream: &TcpStream) -> bool {
    let _ = stream.set_read_timeout(Some(LOOK));
    match stream.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
        ),
    }
}

fn report(
    replier: &Replier,
    conditions: PeerConditions,
    disturbances: Option<Disturbances>,
) -> ResponderReport {
    let counts = replier.counts;
    let disturbances = disturbances.unwrap_or_default();
    ResponderReport {
        received: counts.received,
        replied: counts.replied,
        blocked: counts.blocked,
        foreign: counts.foreign,
        wake_up: figures(&replier.wake_up),
        turnaround: figures(&replier.turnaround).unwrap_or_default(),
        conditions,
        faults: disturbances.minor_faults + disturbances.major_faults,
        preemptions: disturbances.preemptions,
    }
}
