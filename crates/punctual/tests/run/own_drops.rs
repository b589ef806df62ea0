//! Replies that found the sender's own socket full: they are not lost on the path.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_record::Run;
use punctual_record::path::PathCounts;
use punctual_stats::verdict::Outcome;

use crate::alone::alone;
use crate::common::namespaces::{FAR, Namespaces, Side};
use crate::common::needs::{self, Absent};
use crate::common::{Place, Running, need, program, skip, until};
use crate::path::{TOKEN, namespaces, path, respond};
use crate::throttled::Hog;

/// The CPU of the thread that receives.
fn receiver_of(pid: u32) -> usize {
    let mut found = None;
    until("the thread that receives", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let mut folders = threads.flatten().map(|it| it.path());
        let is_it = |folder: &std::path::PathBuf| {
            let name = fs::read_to_string(folder.join("comm"));
            name.is_ok_and(|name| name.trim() == "receive")
        };
        let status = folders
            .find(is_it)
            .and_then(|it| fs::read_to_string(it.join("status")).ok());
        found = status.and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            line.trim().parse().ok()
        });
        found.is_some()
    });
    found.expect("just found")
}

/// What UDP dropped on a side because a socket was full.
fn full(pair: &Namespaces, side: Side) -> u64 {
    let text = pair.shell(side, "cat /proc/net/snmp").expect("snmp");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "RcvbufErrors").expect("it");
    value.parse().expect("a number")
}

/// A measurement whose receiving thread gets no time for 0.7 s.
fn stalled(pair: &Namespaces, before: &[&str], flags: &[&str]) -> (Run, u64) {
    let place = Place::new();
    let _responder = respond(pair, &place, &["--once"]);
    let words = [before, &[program().to_str().expect("a path")]].concat();
    let mut command = pair.command(Side::Near, &place, Path::new(words[0]));
    let common = [
        "measure",
        "udp",
        FAR,
        "-D",
        "3",
        "--deadline",
        "900ms",
        "--no-explain",
        "-o",
        "run",
    ];
    command.args(&words[1..]).args(common).args(flags);
    command.env("PUNCTUAL_TOKEN", TOKEN);
    let running = Running::start(command);
    let cpu = receiver_of(running.pid());
    std::thread::sleep(Duration::from_secs(1));
    let hog = Hog::at(99, cpu);
    std::thread::sleep(Duration::from_millis(700));
    drop(hog);
    running.end();
    let run = place.run_of_path("run");
    let counts = path(&run).counts;
    // Whatever became of a message, it is said once.
    let PathCounts {
        replies,
        lost,
        dropped_here,
        skipped,
        ..
    } = counts;
    let interval_us: u64 = flags[1].parse().expect("a number");
    assert_eq!(
        replies + lost + dropped_here + skipped,
        3_000_000 / interval_us,
        "{counts:?}"
    );
    assert_eq!(run.threads[0].latency.count, replies);
    assert_eq!(run.threads[0].missed, lost + skipped);
    assert!(
        run.threads[0].latency.max_ns > 300_000_000,
        "it was not stalled"
    );
    assert_eq!((lost, full(pair, Side::Far)), (0, 0), "{counts:?}");
    (run, full(pair, Side::Near))
}

#[test]
fn a_sender_that_gets_no_time_for_a_while_has_room_for_what_comes_meanwhile() {
    need!(needs::root());
    let _alone = alone();
    let pair = namespaces!();
    let (run, full) = stalled(&pair, &[], &["-i", "1000", "--miss", "0.5"]);
    assert_eq!((path(&run).counts.dropped_here, full), (0, 0));
    assert_ne!(run.verdict.expect("a verdict").outcome, Outcome::Fail);
}

#[test]
fn what_a_small_buffer_has_no_room_for_is_dropped_here_and_not_lost_on_the_path() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let room = fs::read_to_string("/proc/sys/net/core/rmem_max").expect("readable");
    if room
        .trim()
        .parse::<u64>()
        .is_ok_and(|bytes| bytes > 4 << 20)
    {
        skip!(Absent::right(format!(
            "net.core.rmem_max of at most 4 MiB: it is {}",
            room.trim()
        )));
    }
    let _alone = alone();
    let pair = namespaces!();
    let without = [
        "setpriv",
        "--bounding-set=-net_admin",
        "--inh-caps=-net_admin",
    ];
    let flags = ["-i", "100", "--size", "1400", "--miss", "0.5"];
    let (run, full) = stalled(&pair, &without, &flags);
    let counts = path(&run).counts;
    // The kernel counts the same, and those of the warm-up.
    assert!(
        counts.dropped_here > 0 && counts.dropped_here <= full,
        "{counts:?}, {full}"
    );
    assert!(
        full - counts.dropped_here <= full / 100,
        "{counts:?}, {full}"
    );
    assert!(
        run.events.iter().any(|it| it.kind() == "replies-dropped"),
        "{:?}",
        run.events
    );
    let many = counts.dropped_here * 20 > counts.sent;
    let outcome = run.verdict.expect("a verdict").outcome;
    assert_eq!(outcome == Outcome::Invalid, many, "{counts:?}");
}
