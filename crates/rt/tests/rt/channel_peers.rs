//! Channels beside peers of every kind: a plain socket in Python, hostile bytes, connections that
//! end, readers that read nothing.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::channel_support::{LONG, any_port, errno, in_time, pair, watchdog, with_plain_peer};
use crate::needs::{self, need};
use punctual_rt::channel::{
    Age, Channel, Clock, HEADER, Header, Kind, LARGEST, Listener, Options, Sent, SocketOption,
    SocketOptions, WhenFull,
};

fn small() -> Options {
    Options {
        message_max: 4096,
        ..Options::default()
    }
}

fn header(kind: Kind, length: u32) -> [u8; HEADER] {
    Header {
        kind,
        length,
        deadline_us: 0,
        stamp_ns: 0,
    }
    .bytes()
}

/// The program in docs/channel.md.
fn documented_python() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/channel.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```python\n").expect("a program");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn a_plain_socket_in_python_speaks_the_documented_framing() {
    let _watchdog = watchdog();
    need!(needs::program("python3"));
    let options = Options { pads: 3, ..small() };
    let listener = Listener::bind(&any_port(), &options).unwrap();
    let address = listener.address().unwrap();
    let program = documented_python();
    assert!(program.lines().count() <= 24, "it is meant to be short");
    let python = Command::new("python3")
        .args(["-c", &program, &address.ip().to_string()])
        .arg(address.port().to_string())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut channel = listener.accept(in_time(LONG)).unwrap();
    // It sends each message back, with padding before it.
    for number in 0..100_u32 {
        let message = vec![number as u8; number as usize];
        assert_eq!(channel.send(&message, 1_000_000_000).unwrap(), Sent::Whole);
        let answer = channel.receive(in_time(LONG)).unwrap();
        assert_eq!(answer.payload, message);
        assert_eq!(answer.deadline_ns, 2_000_000);
        assert_eq!(answer.age, Age::Unknown);
    }
    channel.halves().0.finish().unwrap();
    assert_eq!(errno(channel.receive(in_time(LONG))), libc::EPIPE);
    let ended = python.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let counts = channel.counts();
    assert_eq!((counts.sent, counts.received), (100, 100));
    assert_eq!((counts.padding_sent, counts.padding_received), (300, 100));
    assert_eq!((counts.late, counts.not_judged), (0, 100));
}

#[test]
fn bytes_that_are_no_frame_end_the_channel_with_an_error() {
    let _watchdog = watchdog();
    for (sent, expected) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), libc::EPROTO),
        (vec![0; 16], libc::EPROTO),
        (vec![0xff; 100], libc::EPROTO),
        (header(Kind::Message, 4097).to_vec(), libc::EMSGSIZE),
        (header(Kind::Padding, LARGEST).to_vec(), libc::EMSGSIZE),
        // Half a header, a header alone, half a payload: then it closes.
        (header(Kind::Message, 4)[..7].to_vec(), libc::EBADMSG),
        (header(Kind::Message, 4).to_vec(), libc::EBADMSG),
        (
            [&header(Kind::Stamped, 4)[..], b"abc"].concat(),
            libc::EBADMSG,
        ),
        (vec![], libc::EPIPE),
        (header(Kind::Padding, 0).repeat(1000), libc::EPIPE),
    ] {
        let (mut channel, mut peer) = with_plain_peer(&small());
        peer.write_all(&sent).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(errno(channel.receive(in_time(LONG))), expected, "{sent:?}");
        // And again: nothing is read from the middle of a frame.
        assert_eq!(errno(channel.receive(in_time(LONG))), expected, "{sent:?}");
        assert_eq!(channel.counts().received, 0);
        // The other direction still works.
        assert_eq!(channel.send(b"bye", 0).unwrap(), Sent::Whole);
    }
}

#[test]
fn whole_messages_before_a_fault_are_delivered() {
    let _watchdog = watchdog();
    let (mut channel, mut peer) = with_plain_peer(&small());
    let mut bytes = header(Kind::Message, 2).to_vec();
    bytes.extend(b"ok");
    bytes.extend(header(Kind::Message, 0));
    bytes.extend([7; 20]);
    peer.write_all(&bytes).unwrap();
    assert_eq!(channel.receive(in_time(LONG)).unwrap().payload, b"ok");
    assert_eq!(channel.receive(in_time(LONG)).unwrap().payload, b"");
    assert_eq!(errno(channel.receive(in_time(LONG))), libc::EPROTO);
    assert_eq!(channel.counts().received, 2);
}

#[test]
fn a_reset_is_an_error_of_both_directions() {
    let _watchdog = watchdog();
    let (mut channel, peer) = with_plain_peer(&small());
    assert_eq!(channel.send(b"not read", 0).unwrap(), Sent::Whole);
    // Closed with unread data: the kernel sends a reset.
    let mut first = [0];
    (&peer).read_exact(&mut first).unwrap();
    drop(peer);
    assert_eq!(errno(channel.receive(in_time(LONG))), libc::ECONNRESET);
    // The kernel says it once; the channel remembers it.
    assert_eq!(errno(channel.receive(in_time(LONG))), libc::ECONNRESET);
    assert_eq!(errno(channel.send(b"x", 0)), libc::ECONNRESET);
    assert_eq!(channel.counts().sent, 1);
}

/// Sends until the socket accepts no more; the messages that were sent, and the errno.
fn fill(channel: &mut Channel, deadline_ns: u64) -> (u64, i32) {
    for number in 0_u64.. {
        let mut message = [0xab; 3000];
        message[..8].copy_from_slice(&number.to_ne_bytes());
        match channel.send(&message, deadline_ns) {
            Ok(Sent::Whole) => {}
            Ok(Sent::Partly) => {
                // It counts as sent; the next one does not begin before it is complete.
                assert_ne!(channel.halves().0.rest(), 0);
                let refused = errno(channel.send(&message, deadline_ns));
                return (number + 1, refused);
            }
            Err(error) => return (number, error.raw_os_error().unwrap()),
        }
        assert!(number < 100_000, "the socket never fills up");
    }
    unreachable!()
}

#[test]
fn a_slow_reader_loses_no_part_of_a_message() {
    let _watchdog = watchdog();
    for when_full in [WhenFull::Refuse, WhenFull::Wait] {
        for pads in [0, 2] {
            let options = Options {
                when_full,
                pads,
                pad_below: 4096,
                socket: SocketOptions {
                    send_buffer: 8192,
                    receive_buffer: 8192,
                    // A reader that reads nothing for long is not dead here.
                    user_timeout_ms: 0,
                    ..SocketOptions::default()
                },
                ..small()
            };
            let (mut channel, mut peer) = pair(&options);
            let (mut sent, refused) = fill(&mut channel, 1_000_000);
            let expected = match when_full {
                WhenFull::Refuse => libc::EAGAIN,
                WhenFull::Wait => libc::ETIME,
            };
            assert_eq!(refused, expected, "{options:?}");
            assert_eq!(channel.counts().refused, 1);
            assert_eq!(channel.counts().sent, sent);
            // Room again: the rest comes first, then a message after it.
            let reader = thread::spawn(move || {
                let mut numbers = Vec::new();
                loop {
                    match peer.receive(in_time(LONG)) {
                        Ok(message) => {
                            assert_eq!(message.payload.len(), 3000);
                            assert!(message.payload[8..].iter().all(|&byte| byte == 0xab));
                            let number = *message.payload.first_chunk().unwrap();
                            numbers.push(u64::from_ne_bytes(number));
                        }
                        Err(error) => {
                            assert_eq!(error.raw_os_error(), Some(libc::EPIPE), "{error}");
                            return (numbers, peer.counts());
                        }
                    }
                }
            });
            channel.halves().0.flush(in_time(LONG)).unwrap();
            assert_eq!(channel.halves().0.rest(), 0);
            for _ in 0..20 {
                let mut message = [0xab; 3000];
                message[..8].copy_from_slice(&sent.to_ne_bytes());
                match channel.send(&message, 1_000_000_000) {
                    Ok(_) => sent += 1,
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN), "{options:?}");
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            channel.halves().0.flush(in_time(LONG)).unwrap();
            channel.halves().0.finish().unwrap();
            let (numbers, counts) = reader.join().unwrap();
            assert_eq!(numbers, (0..sent).collect::<Vec<_>>(), "{options:?}");
            assert_eq!(counts.received, sent);
            assert_eq!(counts.padding_received, channel.counts().padding_sent);
        }
    }
}

#[test]
fn a_dead_reader_ends_the_connection_after_the_user_timeout() {
    let _watchdog = watchdog();
    let options = Options {
        when_full: WhenFull::Wait,
        socket: SocketOptions {
            send_buffer: 4096,
            user_timeout_ms: 300,
            ..SocketOptions::default()
        },
        ..small()
    };
    let (mut channel, _peer) = with_plain_peer(&options);
    // Without a deadline it would wait for ever.
    let (_, refused) = fill(&mut channel, 0);
    assert_eq!(refused, libc::ETIMEDOUT);
    assert_eq!(errno(channel.send(b"x", 0)), libc::ETIMEDOUT);
    assert_eq!(errno(channel.receive(0)), libc::ETIMEDOUT);
}

#[test]
fn a_flood_of_padding_does_not_hold_a_receive_beyond_its_instant() {
    let _watchdog = watchdog();
    let (mut channel, mut peer) = with_plain_peer(&small());
    let flood = thread::spawn(move || {
        let padding = header(Kind::Padding, 0).repeat(4096);
        while peer.write_all(&padding).is_ok() {}
    });
    let at = in_time(Duration::from_millis(30));
    assert_eq!(errno(channel.receive(at)), libc::ETIME);
    assert!(punctual_rt::clock::now_ns() >= at);
    let padding = channel.counts().padding_received;
    assert!(padding > 0);
    // One call, whatever the peer sends: at most what fits into the memory of two frames.
    assert_eq!(errno(channel.receive(0)), libc::EAGAIN);
    let more = channel.counts().padding_received - padding;
    assert!(more <= 2 * (4096 + 16) / 16 + 1, "{more}");
    drop(channel);
    flood.join().unwrap();
}

#[test]
fn messages_are_received_into_the_callers_buffer() {
    let _watchdog = watchdog();
    let (mut one, mut other) = pair(&small());
    one.send(&[7; 100], 0).map(drop).unwrap();
    let mut buffer = [0; 100];
    let receiver = other.halves().1;
    let short = receiver.receive_into(&mut buffer[..99], in_time(LONG));
    assert_eq!(errno(short), libc::ENOBUFS);
    assert_eq!(receiver.counts().received, 0);
    let message = receiver.receive_into(&mut buffer, in_time(LONG)).unwrap();
    assert_eq!(message.payload, [7; 100]);
    assert_eq!(errno(receiver.receive_into(&mut buffer, 0)), libc::EAGAIN);
    assert_eq!(one.counts().sent, other.counts().received);
}

#[test]
fn deadlines_are_judged_by_the_clock_that_there_is() {
    let _watchdog = watchdog();
    for clock in [Clock::Own, Clock::Shared] {
        let (mut one, mut other) = pair(&Options { clock, ..small() });
        // The fastest of these: with clocks of their own, later ones are compared with it.
        for number in 0..10 {
            one.send(b"a", 3_600_000_000_000).map(drop).unwrap();
            let first = other.receive(in_time(LONG)).unwrap();
            assert!(!first.is_late());
            match clock {
                Clock::Own if number == 0 => assert_eq!(first.age, Age::AtLeast(0)),
                Clock::Own => assert!(matches!(first.age, Age::AtLeast(_))),
                Clock::Shared => assert!(matches!(first.age, Age::Exactly(_))),
            }
        }
        // Late, because nobody receives it for longer than its deadline.
        one.send(b"b", 1_000_000).map(drop).unwrap();
        thread::sleep(Duration::from_millis(50));
        let late = other.receive(in_time(LONG)).unwrap();
        assert_eq!(late.deadline_ns, 1_000_000);
        assert!(late.is_late() && late.age.ns() > 1_000_000, "{late:?}");
        // Without a deadline it has no stamp.
        one.send(b"c", 0).map(drop).unwrap();
        assert_eq!(other.receive(in_time(LONG)).unwrap().age, Age::Unknown);
        let counts = other.counts();
        assert_eq!(
            (counts.received, counts.late, counts.not_judged),
            (12, 1, 0)
        );
        assert!(counts.oldest_ns > 1_000_000);
    }
}

#[test]
fn impossible_options_and_addresses_are_refused() {
    let bad = |change: fn(&mut Options)| {
        let mut options = small();
        change(&mut options);
        let listener = Listener::bind(&any_port(), &options);
        assert_eq!(errno(listener), libc::EINVAL, "{options:?}");
    };
    bad(|options| options.message_max = 0);
    bad(|options| options.message_max = LARGEST + 1);
    bad(|options| options.pads = 8);
    let nobody = "127.0.0.1:1".parse().unwrap();
    assert_eq!(
        errno(Channel::connect(&nobody, u64::MAX, &small())),
        libc::ECONNREFUSED
    );
    let listener = Listener::bind(&any_port(), &small()).unwrap();
    assert_eq!(errno(listener.accept(0)), libc::ETIMEDOUT);
    let datagram = std::net::UdpSocket::bind(any_port()).unwrap();
    assert_eq!(
        errno(Channel::over(OwnedFd::from(datagram), &small())),
        libc::EPROTOTYPE
    );
    let file = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(
        errno(Channel::over(OwnedFd::from(file), &small())),
        libc::ENOTSOCK
    );
    let (mut channel, _peer) = with_plain_peer(&small());
    assert_eq!(errno(channel.send(&[0; 4097], 0)), libc::EMSGSIZE);
    assert_eq!(channel.send(&[0; 4096], 0).unwrap(), Sent::Whole);
    assert_eq!(channel.counts().sent, 1);
}

#[test]
fn both_ends_report_their_options() {
    let _watchdog = watchdog();
    let options = Options {
        socket: SocketOptions {
            send_buffer: 50_000,
            ..SocketOptions::default()
        },
        ..small()
    };
    let listener = Listener::bind(&any_port(), &options).unwrap();
    let address = listener.address().unwrap();
    let client = Channel::connect(&address, in_time(LONG), &options).unwrap();
    let server = listener.accept(in_time(LONG)).unwrap();
    for channel in [&client, &server] {
        assert_eq!(channel.report().settings().len(), SocketOption::ALL.len());
        let buffer = channel.report().of(SocketOption::SendBuffer);
        assert_eq!(buffer.actual, Some(50_000), "{buffer:?}");
        // A timer may be refused or rounded by an older kernel; nothing else.
        for setting in channel.report().not_in_force() {
            let timer = matches!(
                setting.option,
                SocketOption::RtoMin | SocketOption::DelayedAckMax
            );
            assert!(timer, "{setting:?}");
        }
    }
    assert_ne!(client.as_raw_fd(), server.as_raw_fd());
    // A descriptor that does not block waits all the same.
    let (mut one, peer) = with_plain_peer(&options);
    peer.set_nonblocking(true).unwrap();
    let mut other = Channel::over(OwnedFd::from(peer), &options).unwrap();
    let sender = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        one.send(b"late", 0).map(drop).unwrap();
        one
    });
    assert_eq!(other.receive(u64::MAX).unwrap().payload, b"late");
    sender.join().unwrap();
}
