//! The options of a socket that make messages arrive sooner, and a report of those in force.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use crate::sys::socket::{self, TCP_DELACK_MAX_US, TCP_RTO_MIN_US};

/// Options of a TCP socket; 0 and `false` leave the kernel's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_NODELAY: a small message is sent at once, also while others are not acknowledged.
    pub no_delay: bool,
    /// TCP_QUICKACK: received data is acknowledged at once.
    pub quick_ack: QuickAck,
    /// TCP_RTO_MIN_US: the shortest time after which a lost segment is sent again, in us. The
    /// kernel's is 200,000, the least is two ticks (2,000 with HZ=1000, 8,000 with HZ=250).
    pub rto_min_us: u32,
    /// TCP_DELACK_MAX_US: how long an acknowledgement may be delayed, in us; the least is two
    /// ticks.
    pub delayed_ack_max_us: u32,
    /// TCP_USER_TIMEOUT: how long sent data may remain without acknowledgement before the
    /// connection ends with ETIMEDOUT, in ms. The kernel's is some 15 minutes.
    pub user_timeout_ms: u32,
    /// SO_SNDBUF, in bytes as the kernel counts them: the payload is about half of it.
    pub send_buffer: u32,
    /// SO_RCVBUF, as the send buffer. It takes full effect if it is set before the connection.
    pub receive_buffer: u32,
    /// SO_PRIORITY: the class in the queue of the network device; above 6 needs CAP_NET_ADMIN.
    pub priority: u32,
    /// SO_BUSY_POLL: how long a receive polls the device before it sleeps, in us; needs
    /// CAP_NET_ADMIN.
    pub busy_poll_us: u32,
    /// SO_PREFER_BUSY_POLL: polling goes before the device's interrupts; needs CAP_NET_ADMIN.
    pub prefer_busy_poll: bool,
}

/// When received data is acknowledged at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuickAck {
    /// As the kernel decides.
    #[default]
    Off,
    /// From the beginning, until the kernel regards the connection as interactive.
    Once,
    /// Set again after each receive, by one more system call.
    Always,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            no_delay: true,
            quick_ack: QuickAck::Once,
            rto_min_us: 5_000,
            delayed_ack_max_us: 5_000,
            user_timeout_ms: 5_000,
            send_buffer: 0,
            receive_buffer: 0,
            priority: 6,
            busy_poll_us: 0,
            prefer_busy_poll: false,
        }
    }
}

impl SocketOptions {
    /// A plain socket: the kernel's settings. Real-time safe.
    #[must_use]
    pub const fn plain() -> Self {
        Self {
            no_delay: false,
            quick_ack: QuickAck::Off,
            rto_min_us: 0,
            delayed_ack_max_us: 0,
            user_timeout_ms: 0,
            send_buffer: 0,
            receive_buffer: 0,
            priority: 0,
            busy_poll_us: 0,
            prefer_busy_poll: false,
        }
    }

    /// The value that is requested for an option; 0: none. Real-time safe.
    #[must_use]
    pub const fn requested(&self, option: SocketOption) -> u32 {
        match option {
            SocketOption::NoDelay => self.no_delay as u32,
            SocketOption::QuickAck => !matches!(self.quick_ack, QuickAck::Off) as u32,
            SocketOption::RtoMin => self.rto_min_us,
            SocketOption::DelayedAckMax => self.delayed_ack_max_us,
            SocketOption::UserTimeout => self.user_timeout_ms,
            SocketOption::SendBuffer => self.send_buffer,
            SocketOption::ReceiveBuffer => self.receive_buffer,
            SocketOption::Priority => self.priority,
            SocketOption::BusyPoll => self.busy_poll_us,
            SocketOption::PreferBusyPoll => self.prefer_busy_poll as u32,
        }
    }

    /// Sets the options and reads each back. Not real-time safe: two system calls for each option.
    #[must_use]
    pub fn apply(&self, socket: BorrowedFd<'_>) -> Report {
        Report(SocketOption::ALL.map(|option| set(socket, option, self.requested(option))))
    }
}

/// An option of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketOption {
    /// TCP_NODELAY.
    NoDelay,
    /// TCP_QUICKACK.
    QuickAck,
    /// TCP_RTO_MIN_US.
    RtoMin,
    /// TCP_DELACK_MAX_US.
    DelayedAckMax,
    /// TCP_USER_TIMEOUT.
    UserTimeout,
    /// SO_SNDBUF.
    SendBuffer,
    /// SO_RCVBUF.
    ReceiveBuffer,
    /// SO_PRIORITY.
    Priority,
    /// SO_BUSY_POLL.
    BusyPoll,
    /// SO_PREFER_BUSY_POLL.
    PreferBusyPoll,
}

impl SocketOption {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 10] = [
        Self::NoDelay,
        Self::QuickAck,
        Self::RtoMin,
        Self::DelayedAckMax,
        Self::UserTimeout,
        Self::SendBuffer,
        Self::ReceiveBuffer,
        Self::Priority,
        Self::BusyPoll,
        Self::PreferBusyPoll,
    ];

    /// The kernel's name. Real-time safe.
    #[must_use]
    pub const fn name(self) -> &'static CStr {
        match self {
            Self::NoDelay => c"TCP_NODELAY",
            Self::QuickAck => c"TCP_QUICKACK",
            Self::RtoMin => c"TCP_RTO_MIN_US",
            Self::DelayedAckMax => c"TCP_DELACK_MAX_US",
            Self::UserTimeout => c"TCP_USER_TIMEOUT",
            Self::SendBuffer => c"SO_SNDBUF",
            Self::ReceiveBuffer => c"SO_RCVBUF",
            Self::Priority => c"SO_PRIORITY",
            Self::BusyPoll => c"SO_BUSY_POLL",
            Self::PreferBusyPoll => c"SO_PREFER_BUSY_POLL",
        }
    }

    /// Level and number in the kernel.
    const fn numbers(self) -> (i32, i32) {
        match self {
            Self::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            Self::QuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
            Self::RtoMin => (libc::IPPROTO_TCP, TCP_RTO_MIN_US),
            Self::DelayedAckMax => (libc::IPPROTO_TCP, TCP_DELACK_MAX_US),
            Self::UserTimeout => (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
            Self::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
            Self::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
            Self::Priority => (libc::SOL_SOCKET, libc::SO_PRIORITY),
            Self::BusyPoll => (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
            Self::PreferBusyPoll => (libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL),
        }
    }

    /// Whether the kernel has a smallest value, which depends on its tick.
    const fn is_timer(self) -> bool {
        matches!(self, Self::RtoMin | Self::DelayedAckMax)
    }

    /// Whether the kernel keeps twice the value that is set.
    const fn is_doubled(self) -> bool {
        matches!(self, Self::SendBuffer | Self::ReceiveBuffer)
    }
}

/// What became of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not requested.
    NotRequested,
    /// The requested value is in force: it was read back. Times are rounded up to the kernel's tick.
    InForce,
    /// Another value is in force.
    Differs,
    /// The kernel refused it, with this errno.
    Refused(i32),
    /// This kernel does not have it.
    TooOld,
}

/// An option, what was requested, and what is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The option.
    pub option: SocketOption,
    /// The requested value; 0: none.
    pub requested: u32,
    /// The value in force, as far as it can be read.
    pub actual: Option<u32>,
    /// What became of the request.
    pub outcome: Outcome,
}

impl Setting {
    /// What to do if the request is not in force; empty if it is. Real-time safe.
    #[must_use]
    pub fn advice(&self) -> &'static CStr {
        match (self.outcome, self.option) {
            (Outcome::InForce | Outcome::NotRequested, _) => c"",
            (Outcome::TooOld, SocketOption::RtoMin) => {
                c"this kernel has no TCP_RTO_MIN_US (Linux 6.15 has): set it for the route, as \
                  root: ip route change ROUTE rto_min 5ms"
            }
            (Outcome::TooOld, SocketOption::DelayedAckMax) => {
                c"this kernel has no TCP_DELACK_MAX_US (Linux 6.15 has): set quick \
                  acknowledgements for the route, as root: ip route change ROUTE quickack 1"
            }
            (Outcome::TooOld, _) => c"this kernel does not have the option",
            (Outcome::Differs, SocketOption::RtoMin | SocketOption::DelayedAckMax) => {
                c"the kernel's least value is two ticks: one with HZ=1000 allows 2000 us"
            }
            (Outcome::Differs, SocketOption::SendBuffer) => {
                c"the limit is net.core.wmem_max: raise it, as root: sysctl -w \
                  net.core.wmem_max=BYTES"
            }
            (Outcome::Differs, SocketOption::ReceiveBuffer) => {
                c"the limit is net.core.rmem_max: raise it, as root: sysctl -w \
                  net.core.rmem_max=BYTES"
            }
            (Outcome::Differs, _) => c"another value is in force than the requested one",
            (Outcome::Refused(libc::EPERM), SocketOption::Priority) => {
                c"a priority above 6 needs CAP_NET_ADMIN"
            }
            (Outcome::Refused(libc::EPERM), _) => {
                c"it needs CAP_NET_ADMIN; for busy polling root may set net.core.busy_read instead"
            }
            (Outcome::Refused(libc::EOPNOTSUPP), _) => c"the socket is not a TCP socket",
            (Outcome::Refused(libc::EINVAL), _) => c"the value is outside of the kernel's range",
            (Outcome::Refused(_), _) => c"the kernel refused the option",
        }
    }
}

/// What became of all options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report([Setting; SocketOption::ALL.len()]);

impl Report {
    /// All settings, in the order of [`SocketOption::ALL`]. Real-time safe.
    #[must_use]
    pub const fn settings(&self) -> &[Setting] {
        &self.0
    }

    /// What became of one option. Real-time safe.
    #[must_use]
    pub fn of(&self, option: SocketOption) -> &Setting {
        &self.0[option as usize]
    }

    /// The requests that are not in force. Real-time safe.
    pub fn not_in_force(&self) -> impl Iterator<Item = &Setting> {
        self.0
            .iter()
            .filter(|setting| !matches!(setting.outcome, Outcome::NotRequested | Outcome::InForce))
    }
}

/// Two ticks of kernels with HZ=1000, 300, 250 and 100, in us.
const LEAST_US: [u32; 4] = [2_000, 6_667, 8_000, 20_000];

/// The longest tick, up to which a timer is rounded up.
const TICK_US: u32 = 10_000;

/// Sets an option and reads it back.
fn set(at: BorrowedFd<'_>, option: SocketOption, requested: u32) -> Setting {
    let (level, name) = option.numbers();
    let read = || {
        let value = u32::try_from(socket::get(at, level, name).ok()?).ok()?;
        Some(if option.is_doubled() {
            value / 2
        } else {
            value
        })
    };
    let setting = |outcome, actual| Setting {
        option,
        requested,
        actual,
        outcome,
    };
    if requested == 0 {
        return setting(Outcome::NotRequested, read());
    }
    let try_value =
        |value: u32| socket::set(at, level, name, i32::try_from(value).unwrap_or(i32::MAX));
    let mut done = try_value(requested);
    let is_invalid = |done: &std::io::Result<()>| {
        done.as_ref().err().and_then(std::io::Error::raw_os_error) == Some(libc::EINVAL)
    };
    let mut is_raised = false;
    if option.is_timer() && is_invalid(&done) {
        is_raised = true;
        for least in LEAST_US.into_iter().filter(|&least| least > requested) {
            done = try_value(least);
            if !is_invalid(&done) {
                break;
            }
        }
    }
    let is_rounded = |value: u32| {
        option.is_timer() && (requested..requested.saturating_add(TICK_US)).contains(&value)
    };
    match done {
        Ok(()) => match read() {
            Some(value) if value == requested || !is_raised && is_rounded(value) => {
                setting(Outcome::InForce, Some(value))
            }
            // It was accepted, and is not readable.
            None => setting(Outcome::InForce, None),
            other => setting(Outcome::Differs, other),
        },
        Err(error) => match error.raw_os_error().unwrap_or(libc::EINVAL) {
            libc::ENOPROTOOPT => setting(Outcome::TooOld, None),
            errno => setting(Outcome::Refused(errno), read()),
        },
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn what_is_in_force_is_read_back() {
        let (socket, _peer) = connected();
        let report = SocketOptions::default().apply(socket.as_fd());
        assert!(socket.nodelay().unwrap());
        for (option, value) in [
            (SocketOption::NoDelay, 1),
            (SocketOption::QuickAck, 1),
            (SocketOption::UserTimeout, 5_000),
            (SocketOption::Priority, 6),
        ] {
            let setting = report.of(option);
            assert_eq!(setting.option, option);
            assert_eq!(setting.outcome, Outcome::InForce, "{setting:?}");
            assert_eq!(setting.actual, Some(value), "{setting:?}");
            assert_eq!(setting.advice(), c"");
        }
        // A kernel either has both, with the value or with its least, or neither.
        for option in [SocketOption::RtoMin, SocketOption::DelayedAckMax] {
            let setting = report.of(option);
            match setting.outcome {
                Outcome::InForce => assert!((5_000..9_000).contains(&setting.actual.unwrap())),
                Outcome::Differs => assert_eq!(setting.actual, Some(20_000), "HZ=100"),
                Outcome::TooOld => assert_eq!(setting.actual, None, "{setting:?}"),
                _ => panic!("{setting:?}"),
            }
        }
        assert_eq!(
            report.of(SocketOption::BusyPoll).outcome,
            Outcome::NotRequested
        );
    }

    #[test]
    fn a_limited_buffer_and_a_timer_below_the_tick_differ_from_the_request() {
        let (socket, _peer) = connected();
        let options = SocketOptions {
            send_buffer: u32::MAX,
            rto_min_us: 1,
            user_timeout_ms: u32::MAX,
            ..SocketOptions::plain()
        };
        let report = options.apply(socket.as_fd());
        let buffer = report.of(SocketOption::SendBuffer);
        assert_eq!(buffer.outcome, Outcome::Differs);
        assert!(buffer.actual.unwrap() > 0);
        assert!(buffer.advice().to_str().unwrap().contains("wmem_max"));
        let timer = report.of(SocketOption::RtoMin);
        match timer.outcome {
            Outcome::TooOld => assert!(timer.advice().to_str().unwrap().contains("ip route")),
            outcome => {
                assert_eq!(outcome, Outcome::Differs);
                assert!(timer.actual.unwrap() >= 2_000, "{timer:?}");
            }
        }
        assert!(report.not_in_force().count() >= 2);
        assert_eq!(
            report.of(SocketOption::NoDelay).outcome,
            Outcome::NotRequested
        );
    }

    #[test]
    fn a_socket_of_another_kind_refuses_with_a_reason() {
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let report = SocketOptions::default().apply(socket.as_fd());
        let setting = report.of(SocketOption::NoDelay);
        assert!(
            matches!(setting.outcome, Outcome::Refused(_)),
            "{setting:?}"
        );
        assert!(!setting.advice().is_empty());
        assert_eq!(report.of(SocketOption::Priority).outcome, Outcome::InForce);
    }

    #[test]
    fn each_setting_that_is_not_in_force_has_one_line_of_advice() {
        for option in SocketOption::ALL {
            for outcome in [Outcome::Differs, Outcome::TooOld]
                .into_iter()
                .chain((1..134).map(Outcome::Refused))
            {
                let setting = Setting {
                    option,
                    requested: 1,
                    actual: None,
                    outcome,
                };
                let text = setting.advice().to_str().unwrap();
                assert!(!text.is_empty() && !text.contains('\n') && !text.contains("  "));
            }
        }
    }
}
