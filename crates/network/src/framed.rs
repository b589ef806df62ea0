//! Frames of control on a TCP connection, each within a time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::wire::WireError;
use crate::wire::control::Frame;
use crate::wire::limits;

/// Why no frame came.
#[derive(Debug)]
pub enum FrameError {
    /// The other side ended the connection.
    Closed,
    /// It took too long.
    Late,
    /// What came is no frame of the protocol.
    Wire(WireError),
    /// The connection failed.
    Failed(io::Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the other side ended the connection"),
            Self::Late => f.write_str("no answer in time"),
            Self::Wire(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FrameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Wire(error) => Some(error),
            Self::Failed(error) => Some(error),
            Self::Closed | Self::Late => None,
        }
    }
}

impl From<WireError> for FrameError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

/// Reads one frame until an instant, however slowly its bytes come.
///
/// # Errors
/// There is none.
pub fn read(stream: &TcpStream, until: Instant) -> Result<Frame, FrameError> {
    let mut first = [0; 2];
    read_all(stream, &mut first, until)?;
    let length = Frame::length(first)?;
    let mut bytes = [0; limits::FRAME_BYTES];
    let bytes = &mut bytes[..length];
    read_all(stream, bytes, until)?;
    Ok(Frame::parse(bytes)?)
}

fn read_all(
    mut stream: &TcpStream,
    mut bytes: &mut [u8],
    until: Instant,
) -> Result<(), FrameError> {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FrameError::Late);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(FrameError::Closed),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes one frame, within a time.
///
/// # Errors
/// It could not be written.
pub fn write(mut stream: &TcpStream, frame: &Frame, within: Duration) -> Result<(), FrameError> {
    stream.set_write_timeout(Some(within.max(Duration::from_millis(1))))?;
    stream.write_all(&frame.to_bytes())?;
    Ok(())
}

/// A random number from the kernel.
///
/// # Errors
/// The kernel's.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
