//! Ethernet frames between two network namespaces: counted without IP, and from the agreed sender alone.

use std::fs;
use std::time::Duration;

use punctual_record::Run;
use punctual_record::path::Transport;

use crate::common::namespaces::{FAR, Namespaces, Side};
use crate::common::{Place, Running, flat, need, needs, program, until};
use crate::path::{assert_complete, measure, namespaces, path, respond};

/// 500 frames each second, none of which is late.
const FLAGS: [&str; 6] = ["measure", "raw", FAR, "-q", "-i", "2ms"];
const DEADLINE: [&str; 4] = ["--deadline", "900ms", "--timeout", "20"];

fn raw(pair: &Namespaces, place: &Place, seconds: &str, flags: &[&str]) -> Running {
    let all = [&FLAGS[..], &DEADLINE, &["-D", seconds], flags].concat();
    measure(pair, place, &all)
}

/// Waits for the thread that replies.
fn await_session(responder: &Running) {
    until("the session begins", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", responder.pid()));
        let names = tasks.into_iter().flatten().flatten();
        let mut names = names.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
        names.any(|name| name.trim() == "respond")
    });
}

#[test]
fn ethernet_frames_are_measured_and_every_instant_counts() {
    let pair = namespaces!();
    let place = Place::new();
    let responder = respond(&pair, &place, &["--once", "--raw"]);
    let ended = raw(&pair, &place, "1", &["--size", "64,1500", "--burst", "2"]).end();
    // A busy host skips some, which miss; of so few, nothing is sure.
    assert!([0, 2, 3].contains(&ended.code()), "{}", ended.stderr);
    let run = place.run_of_path("run");
    assert_complete(&run, 1_000);
    let path = path(&run);
    assert_eq!((path.transport, path.counts.lost), (Transport::Raw, 0));
    assert!(path.stamps.rx_software && path.stamps.tx_software);
    let report = path.responder.as_ref().unwrap();
    assert_eq!((report.received, report.foreign), (report.replied, 0));
    // Each has a time stamp of the responder's kernel.
    assert_eq!(report.wake_up.unwrap().count, report.received);
    assert!(responder.end().stderr.contains("session over raw"));
    let shown = flat(&place.run(&["report", "run", "-v"]).stdout);
    assert!(shown.contains("raw to "), "{shown}");
}

/// Sends frames of this type from the near side, from this address of Ethernet.
const FORGE: &str = r#"
import socket, sys
near, far, number = sys.argv[1:4]
frame = bytes.fromhex(far.replace(":", "")) + bytes.fromhex(near.replace(":", ""))
frame += bytes.fromhex("88b5") + b"x" * 64
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("veth0", 0))
for _ in range(int(number)):
    link.send(frame)
"#;

fn address(pair: &Namespaces, side: Side) -> String {
    let text = pair.shell(side, "cat /sys/class/net/veth0/address");
    text.unwrap().trim().to_owned()
}

fn forge(pair: &Namespaces, place: &Place, from: &str, to: &str, number: u32) {
    let mut command = pair.command(Side::Near, place, "python3".as_ref());
    command.args(["-c", FORGE, from, to, &number.to_string()]);
    let ended = Running::start(command).end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
}

#[test]
fn frames_of_another_address_or_another_session_are_not_answered() {
    need!(needs::program("python3"));
    let pair = namespaces!();
    let place = Place::new();
    let responder = respond(&pair, &place, &["--once", "--raw"]);
    let running = raw(&pair, &place, "4", &[]);
    await_session(&responder);
    let (near, far) = (address(&pair, Side::Near), address(&pair, Side::Far));
    forge(&pair, &place, "02:00:00:00:00:01", &far, 100);
    forge(&pair, &place, &near, &far, 7);
    running.end();
    let run = place.run_of_path("run");
    assert_complete(&run, 2_000);
    let report = path(&run).responder.as_ref().unwrap();
    // Of another address they don't reach it; those of another session it counts.
    assert_eq!(report.foreign, 7, "{report:?}");
    assert_eq!(report.received, report.replied);
}

#[test]
fn a_link_that_is_down_loses_frames_and_ends_nothing() {
    let pair = namespaces!();
    let place = Place::new();
    let responder = respond(&pair, &place, &["--once", "--raw"]);
    // It ends by a signal: on a busy host, the link's commands take seconds.
    let running = raw(&pair, &place, "100", &[]);
    await_session(&responder);
    // The connection that controls it sends far fewer, and the warm-up 16.
    until("messages are measured", || {
        let frames = pair.shell(Side::Near, "cat /sys/class/net/veth0/statistics/tx_packets");
        frames.is_ok_and(|it| it.trim().parse::<u64>().is_ok_and(|it| it > 400))
    });
    pair.set_link(false);
    std::thread::sleep(Duration::from_millis(400));
    pair.set_link(true);
    std::thread::sleep(Duration::from_millis(1_000));
    running.signal(libc::SIGINT);
    running.end();
    let run: Run = place.run_of_path("run");
    let path = path(&run);
    let counts = path.counts;
    // What the kernel refused was not sent; it is lost all the same.
    assert_eq!(
        counts.replies + counts.lost,
        counts.sent + counts.refused,
        "{counts:?}"
    );
    assert_eq!(run.threads[0].missed, counts.lost + counts.skipped);
    assert!(counts.lost >= 50 && counts.replies >= 200, "{counts:?}");
    let is_gone = run.events.iter().any(|event| event.kind() == "peer-gone");
    assert!(!is_gone, "{:?}", run.events);
    assert!(path.responder.is_some());
}

#[test]
fn what_can_not_send_frames_is_refused_in_one_line() {
    let pair = namespaces!();
    let refused = |responders: &[&str], flags: &[&str], words: &str| {
        let place = Place::new();
        let _responder = respond(&pair, &place, responders);
        let ended = raw(&pair, &place, "1", flags).end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
        assert_eq!(
            ended.stderr.trim_end().lines().count(),
            1,
            "{}",
            ended.stderr
        );
    };
    refused(&[], &[], "start it with --raw");
    pair.shell(Side::Near, "ip link set veth0 mtu 1400")
        .unwrap();
    let long = "veth0: messages of 1401 bytes: this interface takes at most 1400 (its MTU)";
    refused(&["--raw"], &["--size", "64,1401"], long);
    need!(needs::program("setpriv"));
    let place = Place::new();
    let _responder = respond(&pair, &place, &["--raw"]);
    let without = |side, arguments: &[&str]| {
        let mut command = pair.command(side, &place, "setpriv".as_ref());
        command.arg("--bounding-set=-net_raw").arg(program());
        command
            .args(arguments)
            .env("PUNCTUAL_TOKEN", crate::path::TOKEN);
        let ended = Running::start(command).end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("CAP_NET_RAW"), "{}", ended.stderr);
    };
    let measured = [&FLAGS[..], &["--best-effort", "-o", "run", "-D", "1"]].concat();
    without(Side::Near, &measured);
    without(Side::Far, &["respond", "10.79.1.2:7381", "--raw"]);
}
