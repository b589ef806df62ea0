//! The path to another machine, between two network namespaces: what is counted, what ends it, and
//! what is said.

use std::fs;
use std::time::Duration;

use punctual_record::path::{PathRun, Transport};
use punctual_record::{Ending, Run, Standing, State};
use punctual_stats::verdict::Outcome;

use crate::common::namespaces::{FAR, Namespaces, Side};
use crate::common::needs::Absent;
use crate::common::{
    Ended, Place, Running, event_kinds, flat, has_rights, need, program, skip, until,
};

pub const TOKEN: &str = "a-token-of-this-test";

/// The namespaces, or the end of the test.
macro_rules! namespaces {
    () => {
        match Namespaces::pair() {
            Ok(pair) => pair,
            Err(absent) => {
                absent.report();
                return;
            }
        }
    };
}

pub(crate) use namespaces;

/// Starts the responder on the far side, and waits until it listens.
pub fn respond(pair: &Namespaces, place: &Place, flags: &[&str]) -> Running {
    respond_at(FAR, pair, place, flags)
}

fn respond_at(address: &str, pair: &Namespaces, place: &Place, flags: &[&str]) -> Running {
    let mut command = pair.command(Side::Far, place, program());
    command.args(["respond", address]).args(flags);
    command.env("PUNCTUAL_TOKEN", TOKEN);
    let running = Running::start(command);
    await_listening(running.pid());
    running
}

pub fn await_listening(pid: u32) {
    until("the responder listens", || {
        ["tcp", "tcp6"].iter().any(|family| {
            let table = fs::read_to_string(format!("/proc/{pid}/net/{family}"));
            let is_it = |line: &str| line.contains(":1CD4 ") && line.contains(" 0A ");
            table.unwrap_or_default().lines().any(is_it)
        })
    });
}

pub fn measure(pair: &Namespaces, place: &Place, arguments: &[&str]) -> Running {
    let mut command = pair.command(Side::Near, place, program());
    command.args(arguments).args(["-o", "run"]);
    if !has_rights() {
        command.arg("--best-effort");
    }
    command.env("PUNCTUAL_TOKEN", TOKEN);
    Running::start(command)
}

/// [`measure`] with the words of a line.
fn measure_line(pair: &Namespaces, place: &Place, line: &str) -> Running {
    let words: Vec<&str> = line.split_whitespace().collect();
    measure(pair, place, &words)
}

pub fn path(run: &Run) -> &PathRun {
    run.path.as_ref().unwrap()
}

/// Every instant is accounted for, and the verdict counts each that missed.
pub fn assert_complete(run: &Run, instants: u64) {
    let counts = path(run).counts;
    assert_eq!(
        counts.replies + counts.lost + counts.skipped,
        instants,
        "{counts:?}, {:?}",
        run.events
    );
    let thread = &run.threads[0];
    assert_eq!(thread.latency.count, counts.replies);
    assert_eq!(thread.missed, counts.lost + counts.skipped);
    assert_eq!(thread.missed_late, Some(thread.missed));
    assert_eq!((thread.lost, counts.foreign, counts.duplicates), (0, 0, 0));
    let rows = &run.timeline.rows;
    assert_eq!(
        rows.iter().map(|row| row.count).sum::<u64>(),
        counts.replies
    );
    let misses: u64 = rows.iter().map(|row| row.misses).sum();
    assert_eq!(misses, thread.late + thread.missed);
}

#[test]
fn a_path_over_tcp_is_measured_and_judged_with_the_conditions_of_both_sides() {
    let pair = namespaces!();
    let place = Place::new();
    let responder = respond(&pair, &place, &["--once"]);
    let flags = format!(
        "qualify --path {FAR} -D 1 -i 2ms --load none --deadline 900ms --miss 0 --timeout 20 \
         --size 64,1400"
    );
    let ended = measure_line(&pair, &place, &flags).end();
    let run = place.run_of_path("run");
    assert_complete(&run, 500);
    let path = path(&run);
    assert_eq!((path.transport, path.counts.lost), (Transport::Tcp, 0));
    assert_eq!(path.sizes, [64, 1400]);
    let report = path.responder.as_ref().unwrap();
    // With the messages of the warm-up.
    assert!(report.received >= path.counts.sent);
    assert_eq!(report.received, report.replied);
    for name in ["peer-priority", "peer-memory"] {
        let demand = run.demands.iter().find(|it| it.name() == name).unwrap();
        assert_eq!(demand.standing, Standing::InForce, "{demand:?}");
    }
    assert_eq!(run.threads[0].faults.map(|it| it.major), Some(0));
    // A skipped message misses, and a busy host skips some.
    let outcome = run.verdict.as_ref().unwrap().outcome;
    let wanted = match path.counts.skipped {
        0 => Outcome::Pass,
        _ => Outcome::Fail,
    };
    assert_eq!(
        (outcome, ended.code()),
        (wanted, i32::from(wanted.exit_code()))
    );
    let shown = place.run(&["report", "run", "-v"]).stdout;
    let shown = flat(&shown);
    for words in [
        "tcp to ",
        "messages and replies of 64, 1400 bytes",
        "round trips only",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let answered = responder.end().expect(0);
    assert!(
        answered.stderr.contains("session ended"),
        "{}",
        answered.stderr
    );
    let merged = place.run(&["merge", "run", "run", "-o", "sum"]);
    assert_ne!(merged.code(), 0);
    assert!(
        merged.stderr.contains("another machine"),
        "{}",
        merged.stderr
    );
}

#[test]
fn a_number_of_messages_ends_a_run_exactly() {
    let pair = namespaces!();
    let place = Place::new();
    let _responder = respond(&pair, &place, &["--once"]);
    // Without one nothing misses, and a busy host skips some.
    let flags = format!("measure udp {FAR} -l 250 -i 2ms --timeout 10 --deadline 10s");
    measure_line(&pair, &place, &flags).end();
    assert_complete(&place.run_of_path("run"), 250);
    let flags = format!("measure udp {FAR} -l 250 --interval primes");
    let ended = measure_line(&pair, &place, &flags).end();
    assert_eq!(ended.code(), 64);
    assert!(
        ended.stderr.contains("-l has no meaning"),
        "{}",
        ended.stderr
    );
}

#[test]
fn datagrams_that_are_dropped_are_lost_and_miss() {
    let pair = namespaces!();
    let place = Place::new();
    need!(pair.filter(Side::Far, "udp dport 7380 numgen inc mod 10 < 1 drop"));
    let _responder = respond(&pair, &place, &["--once"]);
    let flags = format!("measure udp {FAR} -D 1 -i 2ms --deadline 500ms --miss 1e-3");
    let ended = measure_line(&pair, &place, &flags).end().expect(2);
    let run = place.run_of_path("run");
    assert_complete(&run, 500);
    let counts = path(&run).counts;
    // Each tenth, from any phase.
    assert!(counts.lost.abs_diff(counts.sent / 10) <= 1, "{counts:?}");
    assert!(ended.stdout.contains("FAIL"), "{}", ended.stdout);
    // What was lost is not called skipped.
    let missed = counts.lost + counts.skipped;
    let said = format!("{missed} unanswered");
    assert!(flat(&ended.stdout).contains(&said), "{}", ended.stdout);
    let seconds = (run.timeline.seconds, run.timeline.seconds_with_miss);
    assert_eq!(seconds, (1, 1));
}

/// Frames above 700 bytes vanish: small ones, of the connection of control too, come through.
#[test]
fn a_path_that_swallows_large_messages_fails_in_time_with_every_period() {
    for transport in ["tcp", "udp"] {
        let pair = namespaces!();
        let place = Place::new();
        need!(pair.filter(Side::Far, "meta length > 700 drop"));
        let _responder = respond(&pair, &place, &["--once"]);
        let flags = format!("measure {transport} {FAR} -D 2 -i 5ms --size 1400 --deadline 50ms");
        let begun = std::time::Instant::now();
        let ended = measure_line(&pair, &place, &flags).end().expect(2);
        assert!(begun.elapsed() < Duration::from_secs(30));
        let run = place.run_of_path("run");
        assert_complete(&run, 400);
        assert_eq!(
            (path(&run).counts.replies, path(&run).counts.duplicates),
            (0, 0)
        );
        let said = flat(&ended.stdout);
        assert!(
            said.contains("none came through, though the connection of control does"),
            "{said}"
        );
    }
}

/// Waits until the record of the run under way has replies: it is saved every 5 s.
fn await_replies(place: &Place) {
    until("the record has replies", || {
        let text = fs::read_to_string(place.path().join("run/run.json")).unwrap_or_default();
        text.contains("\"replies\":") && !text.contains("\"replies\":0,")
    });
}

/// A run whose responder is killed or ends.
fn interrupted(pair: &Namespaces, place: &Place, signal: i32) -> (Ended, Run, Ended) {
    let responder = respond(pair, place, &[]);
    let flags = format!("measure tcp {FAR} -D 60 --deadline 1s");
    let sender = measure_line(pair, place, &flags);
    await_replies(place);
    responder.signal(signal);
    let ended = sender.end_within(Duration::from_secs(30)).expect(4);
    (ended, place.run_of_path("run"), responder.end())
}

#[test]
fn a_responder_that_is_killed_makes_the_run_invalid_and_loses_nothing_that_was_measured() {
    let pair = namespaces!();
    let place = Place::new();
    let (ended, run, _) = interrupted(&pair, &place, libc::SIGKILL);
    let record = place.record();
    assert!(event_kinds(&record).contains(&"peer-gone"), "{record}");
    assert!(path(&run).responder.is_none());
    assert!(path(&run).counts.replies > 1_000);
    assert!(
        ended.stdout.contains("the responder is gone")
            || ended.stdout.contains("ended the connection"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_responder_that_is_ended_reports_first() {
    let pair = namespaces!();
    let place = Place::new();
    let (_, run, responder) = interrupted(&pair, &place, libc::SIGTERM);
    let report = path(&run).responder.as_ref().expect("its report");
    assert!(report.received > 1_000);
    assert_eq!(responder.code(), 0);
}

#[test]
fn messages_under_way_when_a_run_is_interrupted_are_waited_for() {
    let pair = namespaces!();
    for (transport, length) in [("udp", ""), ("tcp", "-D 60")] {
        let place = Place::new();
        let responder = respond(&pair, &place, &["--once"]);
        let flags = format!("measure {transport} {FAR} --deadline 10s --timeout 20s {length}");
        let sender = measure_line(&pair, &place, &flags);
        await_replies(&place);
        let wait = || std::thread::sleep(Duration::from_millis(200));
        // Nothing is answered while it is stopped, and the sender ends meanwhile.
        responder.signal(libc::SIGSTOP);
        wait();
        sender.signal(libc::SIGINT);
        wait();
        responder.signal(libc::SIGCONT);
        sender.end_within(Duration::from_secs(15));
        let run = place.run_of_path("run");
        let counts = path(&run).counts;
        assert_eq!(
            (counts.lost, counts.replies),
            (0, counts.sent),
            "{counts:?}"
        );
        let worst_ns = run.threads[0].latency.max_ns;
        assert!(worst_ns > 200_000_000, "{worst_ns}");
        assert_eq!(responder.end().code(), 0);
    }
}

#[test]
fn a_sender_that_is_killed_frees_the_responder() {
    let pair = namespaces!();
    let place = Place::new();
    let responder = respond(&pair, &place, &["--once"]);
    let sender = measure(&pair, &place, &["measure", "tcp", FAR, "-D", "60"]);
    until("it measures", || place.path().join("run/run.json").exists());
    sender.signal(libc::SIGKILL);
    let ended = responder.end().expect(0);
    let said = &ended.stderr;
    assert!(
        said.contains("the sender is gone") || said.contains("no session"),
        "{said}"
    );
}

#[test]
fn a_link_that_is_down_for_a_while_makes_messages_late_and_loses_none_over_tcp() {
    let pair = namespaces!();
    let place = Place::new();
    let _responder = respond(&pair, &place, &["--once"]);
    let flags = format!("measure tcp {FAR} -D 10 --deadline 100ms --timeout 30");
    let sender = measure_line(&pair, &place, &flags);
    await_replies(&place);
    pair.set_link(false);
    std::thread::sleep(Duration::from_millis(600));
    pair.set_link(true);
    sender.end_within(Duration::from_secs(60)).expect(2);
    let run = place.run_of_path("run");
    assert_complete(&run, 10_000);
    let (counts, thread) = (path(&run).counts, &run.threads[0]);
    assert_eq!(counts.lost, 0);
    // Most of the messages of 600 ms were late by up to as much: they were sent, or skipped.
    assert!(thread.late + thread.missed > 300, "{counts:?}");
    assert!(path(&run).responder.is_some());
}

#[test]
fn a_latency_above_the_break_value_ends_it_and_loses_nothing() {
    let pair = namespaces!();
    for transport in ["tcp", "udp"] {
        let place = Place::new();
        let responder = respond(&pair, &place, &["--once"]);
        let flags = [
            "measure",
            transport,
            FAR,
            "-D",
            "60",
            "-i",
            "1000",
            "-b",
            "1ns",
            "--on-breach",
            "touch told",
        ];
        let ended = measure(&pair, &place, &flags).end().expect(2);
        let words = "-b: a latency above 1 ns ended the run";
        assert!(ended.stderr.contains(words), "{ended:?}");
        assert!(place.path().join("told").exists());
        let run = place.run_of_path("run");
        assert_eq!(run.state, State::Stopped(Ending::BreakValue));
        let counts = path(&run).counts;
        assert_eq!(counts.lost, 0, "{counts:?}");
        assert!(counts.replies > 0, "{counts:?}");
        assert!(path(&run).responder.is_some());
        responder.end().expect(0);
    }
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let place = Place::new();
    let refused = |arguments: &[&str], token: Option<&str>, code: i32, words: &[&str]| {
        let mut command = place.command(program());
        command.args(arguments).env_remove("PUNCTUAL_TOKEN");
        if let Some(token) = token {
            command.env("PUNCTUAL_TOKEN", token);
        }
        let ended = Running::start(command).end().expect(code);
        let last = ended.stderr.lines().last().unwrap_or_default();
        for word in words {
            assert!(last.contains(word), "{arguments:?}: {}", ended.stderr);
        }
    };
    refused(&["measure", "tcp"], None, 64, &["expected HOST"]);
    refused(
        &["measure", "tcp", "h"],
        None,
        64,
        &["no token", "punctual respond"],
    );
    refused(&["measure", "tcp", "h"], Some("short"), 64, &["16 to 256"]);
    refused(&["measure", "noise", "h"], None, 64, &["'h'"]);
    refused(&["measure", "--size", "64"], None, 64, &["--size"]);
    refused(
        &["measure", "udp", "h", "--size", "65536"],
        Some(TOKEN),
        64,
        &["65507"],
    );
    refused(
        &["measure", "udp", "h", "-i", "50us", "--timeout", "7s"],
        Some(TOKEN),
        64,
        &["--timeout 7 s", "there is memory for"],
    );
    refused(
        &["measure", "udp", "h", "--gap", "5"],
        Some(TOKEN),
        64,
        &["--gap"],
    );
    refused(
        &["measure", "tcp", "h", "--samples"],
        Some(TOKEN),
        64,
        &["--samples"],
    );
    refused(&["qualify", "--over", "udp"], None, 64, &["--path"]);
    refused(
        &["measure", "tcp", "127.0.0.1:1", "--best-effort"],
        Some(TOKEN),
        1,
        &["connection refused", "punctual respond 127.0.0.1"],
    );
    refused(&["respond", "nowhere"], None, 64, &["ADDRESS", "0.0.0.0"]);
    refused(&["respond", "192.0.2.1"], None, 1, &["192.0.2.1:7380"]);
    refused(
        &["respond", "127.0.0.1", "--token-file", "none"],
        None,
        1,
        &["none"],
    );
    assert_eq!(place.entries(), Vec::<String>::new(), "nothing is left");
}

/// The address that a side's device has by itself, once no other machine can have it.
fn link_local(pair: &Namespaces, side: Side) -> String {
    let shown = "ip -6 -o addr show dev veth0 scope link -tentative | grep -o 'fe80[^/ ]*'";
    let mut found = String::new();
    until("the address is no longer tentative", || {
        found = pair
            .shell(side, shown)
            .unwrap_or_default()
            .trim()
            .to_owned();
        !found.is_empty()
    });
    found
}

#[test]
fn a_link_local_address_has_the_zone_of_each_side() {
    let pair = namespaces!();
    if pair
        .shell(
            Side::Near,
            "grep -qx 0 /proc/sys/net/ipv6/conf/veth0/disable_ipv6",
        )
        .is_err()
    {
        skip!(Absent::kernel("IPv6, turned on"));
    }
    let far = format!("{}%veth0", link_local(&pair, Side::Far));
    link_local(&pair, Side::Near);
    for transport in ["tcp", "udp", "raw"] {
        let place = Place::new();
        let responder = respond_at(&far, &pair, &place, &["--once", "--raw"]);
        let flags = format!("measure {transport} {far} -i 5ms -l 40 --load none");
        measure_line(&pair, &place, &flags).end().expect(0);
        let run = place.run_of_path("run");
        let counts = path(&run).counts;
        assert_eq!(
            (counts.replies, counts.lost),
            (counts.sent, 0),
            "{transport}: {counts:?}"
        );
        assert!(counts.sent >= 30, "{transport}: {counts:?}");
        responder.end().expect(0);
    }
    let flags = "measure tcp fe80::2%nosuch -l 40";
    let ended = measure_line(&pair, &Place::new(), flags).end().expect(1);
    assert!(ended.stderr.contains("No such device"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}
