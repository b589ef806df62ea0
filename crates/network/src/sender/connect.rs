//! The connection of control, from the sender's side.

use std::fmt;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_record::path::{ResponderReport, Transport};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::{Launch, Line};
use crate::framed::{self, FrameError};
use crate::numeric::{self, at_port};
use crate::sys;
use crate::sys::frame::{self, Destination, Interface};
use crate::sys::launch;
use crate::wire::control::Frame;
use crate::wire::delays::PeerDelay;
use crate::wire::proof::{Nonces, Token, What};
use crate::wire::session::{Accepted, Ready, Refusal, Request};
use crate::wire::{PROTOCOL, limits};

/// How long each step may take.
const STEP: Duration = Duration::from_secs(10);
/// The receiving thread looks this often whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Why there is no session.
#[derive(Debug)]
pub enum ConnectError {
    /// The name has no address.
    Name(String, io::Error),
    /// No connection to this address.
    Connect(SocketAddr, io::Error),
    /// The handshake failed.
    Frame(SocketAddr, FrameError),
    /// Another frame came than the one that follows.
    Order(SocketAddr),
    /// The other side does not know the token.
    Impostor(SocketAddr),
    /// The responder refuses.
    Refused(SocketAddr, Refusal),
    /// A call on this machine failed.
    Local(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name, error) => write!(f, "{name}: no address: {error}"),
            Self::Connect(at, error) if error.kind() == io::ErrorKind::ConnectionRefused => write!(
                f,
                "{at}: connection refused: start `punctual respond {}` there",
                at.ip()
            ),
            Self::Connect(at, error) => write!(f, "{at}: cannot connect: {error}"),
            Self::Frame(at, FrameError::Closed) => write!(
                f,
                "{at}: the responder ended the connection: it has too many connections, or it is \
                 another program"
            ),
            Self::Frame(at, error) => write!(f, "{at}: {error}"),
            Self::Order(at) => write!(f, "{at}: the other side does not keep to the protocol"),
            Self::Impostor(at) => write!(
                f,
                "{at}: the other side does not know the token: it is not your responder"
            ),
            Self::Refused(at, refusal) => write!(f, "{at}: the responder refuses: {refusal}"),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Name(_, error) | Self::Connect(_, error) | Self::Local(error) => Some(error),
            Self::Frame(_, error) => Some(error),
            _ => None,
        }
    }
}

/// A connection of control on which both sides have proved that they know the token.
pub struct Control {
    stream: TcpStream,
    peer: SocketAddr,
    nonces: Nonces,
    token: Token,
    /// The version of the responder's punctual.
    pub version: String,
}

/// What a sender opens before it asks for a session.
enum Opened {
    /// The connection of data comes later.
    Nothing,
    Udp(UdpSocket),
    Raw(OwnedFd, Interface),
}

/// An agreed session.
pub struct Session {
    /// The connection of control.
    pub control: Control,
    /// Where data goes.
    pub line: Line,
    /// What the responder says of itself.
    pub ready: Ready,
    /// Time stamps of received data are on.
    pub rx_stamps: bool,
}

impl Session {
    /// Gives messages launch times. Before any is sent.
    ///
    /// # Errors
    /// The kernel takes none.
    pub fn launch_by(&mut self, launch: Launch) -> Result<(), ConnectError> {
        let done = launch::enable(self.line.socket.as_fd(), launch.clock());
        done.map_err(|error| {
            let text = format!("launch times (SO_TXTIME): {error}");
            ConnectError::Local(io::Error::new(error.kind(), text))
        })?;
        self.line.launch = Some(launch);
        Ok(())
    }
}

/// The addresses of a host: `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
///
/// # Errors
/// The name has none.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    let unknown = |error| ConnectError::Name(host.to_owned(), error);
    if let Some(at) = numeric::parse(host, port).map_err(unknown)? {
        return Ok(vec![at]);
    }
    let found = match host.rsplit_once(':') {
        Some((name, text)) => {
            let port = text.parse().map_err(|_| {
                let text = format!("'{text}' is no port");
                unknown(io::Error::new(io::ErrorKind::InvalidInput, text))
            })?;
            (name, port).to_socket_addrs()
        }
        None => (host, port).to_socket_addrs(),
    };
    let found: Vec<SocketAddr> = found.map_err(unknown)?.collect();
    match found.is_empty() {
        true => Err(unknown(io::ErrorKind::NotFound.into())),
        false => Ok(found),
    }
}

impl Control {
    /// Connects to the first of the addresses that answers, and proves the token both ways.
    ///
    /// # Errors
    /// There is no responder with this token.
    pub fn open(
        addresses: &[SocketAddr],
        token: &Token,
        version: &str,
    ) -> Result<Self, ConnectError> {
        let mut refused = ConnectError::Local(io::ErrorKind::NotFound.into());
        for at in addresses {
            match TcpStream::connect_timeout(at, STEP) {
                Ok(stream) => return Self::greet(stream, *at, token, version),
                Err(error) => refused = ConnectError::Connect(*at, error),
            }
        }
        Err(refused)
    }

    fn greet(
        stream: TcpStream,
        peer: SocketAddr,
        token: &Token,
        version: &str,
    ) -> Result<Self, ConnectError> {
        stream.set_nodelay(true).map_err(ConnectError::Local)?;
        let sender = framed::random().map_err(ConnectError::Local)?;
        let hello = Frame::Hello {
            protocol: PROTOCOL,
            version: version.to_owned(),
            nonce: sender,
        };
        let mut control = Self {
            stream,
            peer,
            nonces: Nonces {
                sender,
                responder: [0; 32],
            },
            token: token.clone(),
            version: String::new(),
        };
        control.write(&hello)?;
        let Frame::Challenge { version, nonce } = control.read(STEP)? else {
            return Err(ConnectError::Order(peer));
        };
        control.version = punctual_record::text::shortened(&version, 32);
        control.nonces.responder = nonce;
        let proof = token.prove(What::Sender, &control.nonces, &[]);
        control.write(&Frame::Proof(proof))?;
        let Frame::Welcome(proof) = control.read(STEP)? else {
            return Err(ConnectError::Order(peer));
        };
        match token.accepts(&proof, What::Responder, &control.nonces, &[]) {
            true => Ok(control),
            false => Err(ConnectError::Impostor(peer)),
        }
    }

    /// Where the responder is.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Agrees on a session, and opens its connection of data.
    ///
    /// # Errors
    /// The responder refuses, or it can't be reached.
    pub fn agree(self, mut request: Request) -> Result<Session, ConnectError> {
        let opened = self.open_data(&mut request).map_err(ConnectError::Local)?;
        self.write(&Frame::Request(request.clone()))?;
        let Frame::Accepted(accepted) = self.read(STEP)? else {
            return Err(ConnectError::Order(self.peer));
        };
        let (socket, to) = self.join(opened, &accepted)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(LOOK))
            .map_err(|error| ConnectError::Local(error.into()))?;
        let Frame::Ready(ready) = self.read(STEP)? else {
            return Err(ConnectError::Order(self.peer));
        };
        let is_tcp = request.transport == Transport::Tcp;
        let (rx_stamps, tx_stamps) = match request.stamps {
            true => sys::enable_stamps(socket.as_fd(), is_tcp, true),
            false => (false, false),
        };
        Ok(Session {
            line: Line {
                socket: Arc::new(socket),
                transport: request.transport,
                tag: accepted.tag,
                sizes: request.sizes,
                burst: request.burst,
                tx_stamps,
                to,
                launch: None,
            },
            control: self,
            ready: *ready,
            rx_stamps,
        })
    }

    /// Opens what the request names.
    fn open_data(&self, request: &mut Request) -> io::Result<Opened> {
        match request.transport {
            Transport::Tcp => Ok(Opened::Nothing),
            Transport::Udp => {
                let any: SocketAddr = match self.peer {
                    SocketAddr::V4(_) => ([0u8; 4], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                sys::make_room(socket.as_fd());
                request.port = socket.local_addr()?.port();
                Ok(Opened::Udp(socket))
            }
            Transport::Raw => {
                let interface = frame::interface_with(self.stream.local_addr()?.ip())?;
                let most = interface.most_bytes;
                if let Some(size) = request.sizes.iter().find(|size| **size > most) {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!(
                            "{}: messages of {size} bytes: this interface takes at most {most} \
                             (its MTU)",
                            interface.name
                        ),
                    ));
                }
                request.ethernet = interface.address;
                let socket = frame::open()?;
                sys::make_room(socket.as_fd());
                Ok(Opened::Raw(socket, interface))
            }
        }
    }

    /// Connects what was opened with the responder's, or opens the connection of data.
    fn join(
        &self,
        opened: Opened,
        accepted: &Accepted,
    ) -> Result<(OwnedFd, Option<Destination>), ConnectError> {
        match opened {
            Opened::Nothing => Ok((self.join_stream(accepted)?.into(), None)),
            Opened::Udp(socket) => {
                let to = at_port(self.peer, accepted.port);
                socket.connect(to).map_err(ConnectError::Local)?;
                Ok((socket.into(), None))
            }
            Opened::Raw(socket, interface) => {
                let address = accepted.ethernet;
                frame::receive_from(socket.as_fd(), &interface, address)
                    .map_err(ConnectError::Local)?;
                let interface = interface.index;
                Ok((socket, Some(Destination { interface, address })))
            }
        }
    }

    fn join_stream(&self, accepted: &Accepted) -> Result<TcpStream, ConnectError> {
        let peer = self.peer;
        let stream = TcpStream::connect_timeout(&peer, STEP)
            .map_err(|error| ConnectError::Connect(peer, error))?;
        stream.set_nodelay(true).map_err(ConnectError::Local)?;
        let session = accepted.session;
        let join = Frame::Join {
            session,
            proof: self.token.prove(What::Data, &self.nonces, &session),
        };
        let failed = |error| ConnectError::Frame(peer, error);
        framed::write(&stream, &join, STEP).map_err(failed)?;
        match framed::read(&stream, Instant::now() + STEP).map_err(failed)? {
            Frame::Joined => Ok(stream),
            _ => Err(ConnectError::Order(peer)),
        }
    }

    fn write(&self, frame: &Frame) -> Result<(), ConnectError> {
        framed::write(&self.stream, frame, STEP)
            .map_err(|error| ConnectError::Frame(self.peer, error))
    }

    fn read(&self, within: Duration) -> Result<Frame, ConnectError> {
        let frame = framed::read(&self.stream, Instant::now() + within)
            .map_err(|error| ConnectError::Frame(self.peer, error))?;
        match frame {
            Frame::Refused(refusal) => Err(ConnectError::Refused(self.peer, refusal)),
            frame => Ok(frame),
        }
    }

    /// Whether the responder has ended the session: it says nothing while it measures.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let mut byte = [0];
        let ended = match self.stream.peek(&mut byte) {
            Ok(_) => true,
            Err(error) => {
                error.kind() != io::ErrorKind::WouldBlock
                    && error.kind() != io::ErrorKind::Interrupted
            }
        };
        ended | self.stream.set_nonblocking(false).is_err()
    }

    /// Ends the session, and returns what the responder saw, and what delayed its thread.
    ///
    /// # Errors
    /// It does not say.
    pub fn end(
        &mut self,
        within: Duration,
    ) -> Result<(ResponderReport, Vec<PeerDelay>), ConnectError> {
        // If it has ended the session by itself, its report is there already.
        let _ = self.write(&Frame::End);
        let until = Instant::now() + within;
        let mut delays = Vec::new();
        let report = loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.read(left)? {
                Frame::Report(report) => break *report,
                Frame::Delays(more) if delays.len() + more.len() <= limits::MOST_DELAYS => {
                    delays.extend(more);
                }
                _ => return Err(ConnectError::Order(self.peer)),
            }
        };
        // The responder is through with it when it ends the connection.
        let _ = self.stream.set_read_timeout(Some(Duration::from_secs(1)));
        let _ = self.stream.read(&mut [0]);
        Ok((report, delays))
    }
}
