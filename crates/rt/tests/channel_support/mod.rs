//! Shared functions of the tests of channels.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use punctual_rt::channel::{Channel, Options};
use punctual_rt::clock;

/// Long enough for a busy machine, and short enough for a test that would hang.
pub const LONG: Duration = Duration::from_secs(60);

/// An instant so far from now.
pub fn in_time(time: Duration) -> u64 {
    clock::now_ns() + u64::try_from(time.as_nanos()).unwrap()
}

pub fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A channel, and the plain socket at its other end.
pub fn with_plain_peer(options: &Options) -> (Channel, TcpStream) {
    let listener = TcpListener::bind(any_port()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(LONG)).unwrap();
    (
        Channel::over(OwnedFd::from(client), options).unwrap(),
        server,
    )
}

/// Both ends of a connection.
pub fn pair(options: &Options) -> (Channel, Channel) {
    let (client, server) = with_plain_peer(options);
    (
        client,
        Channel::over(OwnedFd::from(server), options).unwrap(),
    )
}

pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("an error").raw_os_error().unwrap()
}

/// Ends the process unless this is dropped in time.
#[must_use]
pub struct Watchdog(
    #[expect(dead_code, reason = "the thread sees that it is dropped")] mpsc::Sender<()>,
);

/// Ends the process if the test does not end: a channel that hangs is a fault. Other tests of the
/// process may take as long as they like.
pub fn watchdog() -> Watchdog {
    let (end, wait) = mpsc::channel();
    thread::spawn(move || {
        if wait.recv_timeout(2 * LONG) == Err(RecvTimeoutError::Timeout) {
            #[allow(clippy::print_stderr, reason = "says why it ends")]
            {
                eprintln!("a test of the channel hangs");
            }
            std::process::abort();
        }
    });
    Watchdog(end)
}
