//! Peers that do not keep to the protocol, or vanish: the responder says so, and serves the next.

use std::io::Read;

use super::*;

/// Reads until the other side ends the connection.
fn drained(mut stream: &TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn garbage_gets_no_answer_and_half_a_handshake_ends_in_time() {
    let responder = responder();
    let began = Instant::now();
    let silent = TcpStream::connect(responder.at).unwrap();
    let half = TcpStream::connect(responder.at).unwrap();
    (&half).write_all(&[0, 60, 0, b'P']).unwrap();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 600],
        &[0, 0],
        &[0, 1, 99],
        &[0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8],
    ] {
        let stream = TcpStream::connect(responder.at).unwrap();
        (&stream).write_all(garbage).unwrap();
        assert!(drained(&stream).is_empty(), "{garbage:?}");
        assert!(matches!(responder.rejection(), Rejection::Frame(_)));
    }
    // Meanwhile a session is possible.
    let made = measure(
        responder.agree(Transport::Tcp, &[256]),
        1_000_000,
        20,
        || (),
    );
    assert!(made.report.is_ok());
    assert!(drained(&silent).is_empty());
    assert!(drained(&half).is_empty());
    assert!(
        began.elapsed() >= Duration::from_secs(4),
        "they were given their time"
    );
}

#[test]
fn a_flood_of_connections_is_dropped_and_leaves_the_session_alone() {
    let responder = responder();
    let session = responder.agree(Transport::Tcp, &[256]);
    let at = responder.at;
    let made = measure(session, 1_000_000, 300, move || {
        let flood: Vec<TcpStream> = (0..200)
            .filter_map(|_| TcpStream::connect(at).ok())
            .collect();
        assert!(flood.len() > 100);
        thread::sleep(Duration::from_millis(100));
    });
    assert_complete(&made, 300, 1);
    assert_eq!(made.counts.lost, 0);
    assert!(made.report.is_ok());
    let mut dropped = 0;
    for notice in responder.notices.try_iter() {
        if let Notice::Dropped(number) = notice {
            dropped += number;
        }
    }
    assert!(dropped > 100, "{dropped}");
}

#[test]
fn a_join_without_a_proof_is_refused_and_the_session_waits_for_the_true_one() {
    let responder = responder();
    let token = Token::parse(TOKEN).unwrap();
    let stream = TcpStream::connect(responder.at).unwrap();
    let until = Instant::now() + PATIENCE;
    let hello = Frame::Hello {
        protocol: PROTOCOL,
        version: "1".to_owned(),
        nonce: [5; 32],
    };
    framed::write(&stream, &hello, PATIENCE).unwrap();
    let Frame::Challenge { nonce, .. } = framed::read(&stream, until).unwrap() else {
        panic!("no challenge");
    };
    let nonces = Nonces {
        sender: [5; 32],
        responder: nonce,
    };
    let proof = token.prove(What::Sender, &nonces, &[]);
    framed::write(&stream, &Frame::Proof(proof), PATIENCE).unwrap();
    assert!(matches!(
        framed::read(&stream, until),
        Ok(Frame::Welcome(_))
    ));
    let asked = Frame::Request(request(Transport::Tcp, &[256]));
    framed::write(&stream, &asked, PATIENCE).unwrap();
    let Frame::Accepted(accepted) = framed::read(&stream, until).unwrap() else {
        panic!("not accepted");
    };
    let join = |proof| {
        let data = TcpStream::connect(responder.at).unwrap();
        let session = accepted.session;
        framed::write(&data, &Frame::Join { session, proof }, PATIENCE).unwrap();
        let answer = framed::read(&data, until).unwrap();
        (data, answer)
    };
    let (_, answer) = join([0; 32]);
    assert_eq!(answer, Frame::Refused(Refusal::Token));
    // The proof of control is none for data.
    assert_eq!(join(proof).1, Frame::Refused(Refusal::Token));
    let (data, answer) = join(token.prove(What::Data, &nonces, &accepted.session));
    assert_eq!(answer, Frame::Joined);
    assert!(matches!(framed::read(&stream, until), Ok(Frame::Ready(_))));
    // What is no message ends the session, not the responder.
    (&data).write_all(&[9; 500]).unwrap();
    assert!(drained(&data).is_empty());
    framed::write(&stream, &Frame::End, PATIENCE).unwrap();
    let Frame::Report(report) = framed::read(&stream, until).unwrap() else {
        panic!("no report");
    };
    assert_eq!((report.received, report.foreign), (0, 1));
    assert!(matches!(responder.session().0, SessionEnd::Failed(_)));
}

#[test]
fn a_sender_that_vanishes_frees_the_responder() {
    let responder = responder();
    drop(responder.agree(Transport::Tcp, &[256]));
    assert_eq!(responder.session().0, SessionEnd::Vanished);
    let made = measure(
        responder.agree(Transport::Udp, &[256]),
        1_000_000,
        20,
        || (),
    );
    assert!(made.report.is_ok());
}

#[test]
fn a_slow_reader_blocks_itself_alone() {
    let responder = responder();
    let session = responder.agree(Transport::Tcp, &[4096]);
    let Session {
        mut control, line, ..
    } = session;
    // It sends, and reads nothing: the replies fill the buffers of both sides, then its messages.
    let (writers, mut readers) = rings(10_000, 1).unwrap();
    let shared = Shared::new();
    let mut sender = Sender::new(line, Arc::clone(&shared), writers.sent);
    let sending = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let ended = sender.run(Schedule::new(clock::now_ns(), Fixed(10_000)));
            drop(shared);
            ended
        })
    };
    let (mut blocked, mut seen) = (0u64, 0u64);
    let until = Instant::now() + PATIENCE;
    let mut last = (0, Instant::now());
    while last.1.elapsed() < Duration::from_millis(300) && Instant::now() < until {
        readers.sent.drain(|sent| {
            seen += 1;
            blocked += u64::from(sent.blocked);
        });
        if seen != last.0 {
            last = (seen, Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
    }
    // It waits for room, and ends when it is asked.
    shared.end();
    assert!(matches!(sending.join().unwrap(), Ended::Completed));
    assert!(seen > 100, "{seen}");
    let (report, delays) = control.end(Duration::from_secs(5)).unwrap();
    assert!(delays.is_empty());
    assert!(report.received <= seen + 1);
    assert_eq!(responder.session().0, SessionEnd::Completed);
}

#[test]
fn the_end_of_the_responder_ends_its_session_with_a_report() {
    let responder = responder();
    let session = responder.agree(Transport::Tcp, &[256]);
    assert!(!session.control.has_ended());
    responder.halt.store(true, Ordering::Release);
    let until = Instant::now() + PATIENCE;
    // Its report is on the connection, then its end.
    while !session.control.has_ended() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    let made = measure(session, 1_000_000, 5, || ());
    let [_, received] = &made.ended;
    assert!(
        matches!(received, Ended::Closed | Ended::Completed),
        "{received:?}"
    );
    assert_eq!(responder.session().0, SessionEnd::Halted);
}
