//! What ran instead of the threads of a path, and of those that receive its packets: injected on this
//! machine, and named by the kernel's events.

mod there;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual_record::path::bill::{
    Certainty, MessageBills, MessageCause as Cause, MessageEvidence as Evidence, MessageRow,
    MessageStage as Stage, Runner,
};
use punctual_record::{Happening, Run};
use punctual_report::facts;

use crate::alone::alone;
use crate::common::namespaces::{FAR, Namespaces, Side};
use crate::common::needs::{self, Absent};
use crate::common::{self, Ended, Place, Running, cpus, flat, need, until, why_invalid};
use crate::hog::{NAME, PRIORITY, Truth, hog};
use crate::path::{measure, namespaces, path, respond};
use crate::stalls::{HIGHEST, Stalls, Witness};

/// Later than this, a message has a bill.
const DEADLINE: &str = "5ms";
/// A message is sent so often.
const EACH_NS: u64 = 5_000_000;

/// When something was injected, and when this machine stalled by itself: no bill is judged by that time.
struct Injected {
    truth: Vec<(u64, u64)>,
    stalls: Stalls,
}

/// A run of 4 s while the hog takes a CPU, and when it did.
fn hogged(pair: &Namespaces, cpu: usize, flags: &[&str]) -> (Run, Injected) {
    let flags = [&["--deadline", DEADLINE], flags].concat();
    let (run, injected, _) = hogged_with(pair, cpu, &flags, &[]);
    (run, injected)
}

/// The same with flags of the responder, and what that says.
fn hogged_with(
    pair: &Namespaces,
    cpu: usize,
    flags: &[&str],
    responders: &[&str],
) -> (Run, Injected, String) {
    without_tcps_part(pair).expect("root may");
    let place = Place::new();
    let witness = Witness::start(HIGHEST, &cpus());
    let responder = cpus()[0].to_string();
    let responders = [&["--once", "-a", &responder], responders].concat();
    let responding = respond(pair, &place, &responders);
    let common = ["-D", "4", "-i", "5ms", "-q"];
    let arguments = [&["measure", "tcp", FAR], &common[..], flags].concat();
    let running = measure(pair, &place, &arguments);
    let truth: Truth = Arc::new(Mutex::new(Vec::new()));
    let done = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| hog(cpu, &truth, &done));
        let ended = running.end();
        done.store(true, Ordering::Relaxed);
        ended
    });
    let truth = std::mem::take(&mut *truth.lock().unwrap());
    let injected = Injected {
        truth,
        stalls: witness.stalls(),
    };
    drop(witness);
    let run = judged_run(&place, &ended);
    (run, injected, flat(&responding.end().stderr))
}

/// bbr, the default of some systems, holds messages and replies while acknowledgements are late. A probe of a
/// lost tail sends again what only waits for a thread, and time stamps are then those of the copy.
fn without_tcps_part(pair: &Namespaces) -> Result<(), String> {
    let script = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control
                  echo 0 > /proc/sys/net/ipv4/tcp_early_retrans";
    pair.shell(Side::Near, script)?;
    pair.shell(Side::Far, script).map(drop)
}

/// How often the hog came in a run of 4 s: it begins before, and ends after it.
fn hogs_of_run(by: &Injected) -> u64 {
    const RUN_MS: u64 = 4_000;
    const HOG_EACH_MS: u64 = 110;
    (by.truth.len() as u64).min(RUN_MS / HOG_EACH_MS)
}

/// The run of a measurement that came to its end. An overloaded host makes it INVALID, with the same
/// bills.
fn judged_run(place: &Place, ended: &Ended) -> Run {
    let run = place.run_of_path("run");
    match ended.code() {
        0 | 2 | 3 => {}
        4 => eprintln!("INVALID: {}", why_invalid(&run)),
        code => panic!("{code}: {}", ended.stderr),
    }
    run
}

/// Why the events were not recorded.
fn why_not(run: &Run) -> Option<String> {
    run.events.iter().find_map(|event| match &event.what {
        Happening::NotExplained {
            why,
            messages: true,
            ..
        } => Some(facts::unavailable(why)),
        _ => None,
    })
}

fn bills(run: &Run) -> &MessageBills {
    path(run).bills.as_ref().expect("bills")
}

/// The worst messages of whose latency the injection took at least three quarters.
#[derive(Debug, Default)]
struct Judged {
    /// During which this machine stalled: their bills may name that as well.
    stalled: usize,
    /// Whose events or time stamps were not taken in time, on a machine that is too busy for that.
    unseen: usize,
    /// Messages of any kind that a stall can have delayed.
    by_stalls: u64,
    /// The others.
    injected: usize,
    /// Of these, how many have a main cause that is as expected.
    named: usize,
}

fn judged(
    bills: &MessageBills,
    by: &Injected,
    is_expected: impl Fn(Stage, &Cause) -> bool,
) -> Judged {
    let mut judged = Judged {
        by_stalls: by.stalls.messages(EACH_NS),
        ..Judged::default()
    };
    for bill in &bills.worst {
        let (from_ns, to_ns) = (bill.requested_ns, bill.requested_ns + bill.latency_ns);
        let inside = |it: &(u64, u64)| it.1.min(to_ns).saturating_sub(it.0.max(from_ns));
        let injected_ns: u64 = by.truth.iter().map(inside).sum();
        if injected_ns < bill.latency_ns / 4 * 3 {
            continue;
        }
        if !by.stalls.spared(from_ns, to_ns) {
            judged.stalled += 1;
            continue;
        }
        let main = bill.main().expect("a row");
        let by_events = |row: &MessageRow| {
            let events = [Evidence::Events, Evidence::PeerEvents];
            events.iter().any(|it| row.evidence.contains(it))
        };
        let has_stamps = bill.rows.iter().any(|row| row.stage == Stage::Queue);
        if !has_stamps || !bill.rows.iter().any(by_events) {
            judged.unseen += 1;
            continue;
        }
        // With much to do the kernel leaves packets to ksoftirqd, which a hog keeps away as well: the bill says only
        // that it was likely the way.
        let on_its_way = main.stage == Stage::Way && main.certainty == Certainty::Likely;
        if on_its_way && !is_expected(main.stage, &main.cause) {
            judged.unseen += 1;
            continue;
        }
        judged.injected += 1;
        if is_expected(main.stage, &main.cause) {
            judged.named += 1;
            let events = match main.stage {
                Stage::PeerReceive | Stage::PeerWakeUp => Evidence::PeerEvents,
                _ => Evidence::Events,
            };
            assert!(main.evidence.contains(&events), "{bill:?}");
        } else {
            eprintln!("{bill:?}");
        }
    }
    let (late, stalled_us) = (bills.late, by.stalls.total_ns() / 1_000);
    eprintln!("{judged:?}; {late} late, stalls of {stalled_us} us");
    judged
}

/// Messages were late by the injection, and it is named in each of them; the rows sum.
fn require_named(bills: &MessageBills, judged: &Judged) {
    assert!(judged.injected >= 5, "{judged:?}");
    assert_eq!(judged.named, judged.injected, "{judged:?}");
    let traced = bills.traced.max(bills.peer_traced);
    // How many can be examined in time is the speed of a program without optimisation.
    assert!(
        traced + judged.by_stalls >= bills.late / 2,
        "{judged:?} {bills:?}"
    );
    assert!(judged.unseen * 4 <= judged.injected, "{judged:?}");
    for bill in &bills.worst {
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns);
    }
    assert!(bills.is_consistent());
}

/// The same, by the kernel's events of this side.
fn require(run: &Run, judged: &Judged) {
    let bills = bills(run);
    eprintln!(
        "{} with events; tracer {:?}",
        bills.traced, run.own_cost.tracer
    );
    require_named(bills, judged);
    let cost = run.own_cost.tracer.expect("its cost");
    assert!(cost.events > 0 && cost.cpu_ns > 0, "{cost:?}");
}

fn is_hog(by: &Runner) -> bool {
    by.task == NAME && by.policy == "SCHED_FIFO" && by.priority == PRIORITY && by.tid > 0
}

#[test]
fn a_hog_on_the_receivers_cpu_is_named() {
    need!(explained_pair(&[]));
    let pair = namespaces!();
    let _alone = alone();
    let (sender, receiver) = (cpus()[0], cpus()[1]);
    let both = format!("{sender},{receiver}");
    let (run, by) = hogged(&pair, receiver, &["-a", &both]);
    assert_eq!(why_not(&run), None);
    let is_expected = |stage, cause: &Cause| match cause {
        Cause::NotScheduled { by: Some(by) } => stage == Stage::WakeUp && is_hog(by),
        _ => false,
    };
    require(&run, &judged(bills(&run), &by, is_expected));
    // What delayed few messages is among the causes of all of them, without its number.
    let ranked = bills(&run).ranking.iter().find(|it| {
        matches!(&it.cause, Cause::NotScheduled { by: Some(by) } if by.task == NAME && by.tid == 0)
    });
    // Each time it took the CPU for five periods.
    let hogs = hogs_of_run(&by);
    assert!(ranked.is_some_and(|it| it.main >= hogs / 2), "{ranked:?}");
}

/// The priority of the thread of NAPI: nothing but the hog is above it on its CPU.
const BELOW: u32 = PRIORITY - 20;

/// What [`threaded_napi`] uses and this machine lacks.
/// What a thread of NAPI of one's own takes.
const FOR_NAPI: &[&str] = &["ethtool", "pgrep", "taskset", "chrt"];

/// What two sides and the events of their CPUs take, and these programs.
fn explained_pair(programs: &[&str]) -> Result<(), Absent> {
    needs::cpus(2)?;
    needs::tracing()?;
    programs
        .iter()
        .try_for_each(|it| needs::program(it).map(drop))
}

/// The device of a side has a thread of NAPI, with this priority and bound to a CPU.
fn threaded_napi(pair: &Namespaces, side: Side, cpu: usize, priority: u32) -> Result<(), String> {
    let other = match side {
        Side::Near => Side::Far,
        Side::Far => Side::Near,
    };
    // Segments that the other side's kernel need not cut are passed on without NAPI.
    pair.shell(other, "ethtool -K veth0 tso off gso off")?;
    pair.shell(
        side,
        &format!(
            "ethtool -K veth0 gro on
             before=$(pgrep '^napi/veth0-' || true)
             echo 1 > /sys/class/net/veth0/threaded
             for tid in $(pgrep '^napi/veth0-'); do
                 case \" $before \" in *\"$tid\"*) continue ;; esac
                 taskset -pc {cpu} $tid
                 chrt -f -p {priority} $tid
             done | grep -q ."
        ),
    )?;
    Ok(())
}

/// The hog kept a thread of NAPI of the pair from running.
fn is_napi_below_hog(cause: &Cause) -> bool {
    match cause {
        Cause::NapiThread {
            thread,
            by: Some(by),
        } => thread.task.starts_with("napi/veth0-") && thread.priority == BELOW && is_hog(by),
        _ => false,
    }
}

#[test]
fn a_hog_above_the_thread_of_napi_is_named() {
    need!(explained_pair(FOR_NAPI));
    let pair = namespaces!();
    let _alone = alone();
    let (ours, other) = (cpus()[0], cpus()[1]);
    let napi = threaded_napi(&pair, Side::Near, other, BELOW);
    need!(napi.map_err(|why| Absent::refused("threaded NAPI", why)));
    let (run, by) = hogged(&pair, other, &["-a", &ours.to_string()]);
    assert_eq!(why_not(&run), None);
    let is_expected = |stage, cause: &Cause| stage == Stage::Receive && is_napi_below_hog(cause);
    require(&run, &judged(bills(&run), &by, is_expected));
}

/// Each packet keeps the softirq of its CPU busy for [`BUSY_NS`]: it passes that many rules. Prints when, until it is
/// killed.
const FLOOD: &str = r#"
import socket, sys, time
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    time.sleep(0.085)
    for _ in range(2):
        begin = time.monotonic_ns()
        flood.sendto(b"x", ("127.0.0.1", 9))
        sys.stdout.write(f"{begin} {time.monotonic_ns()}\n")
        sys.stdout.flush()
    open("floods", "w")
"#;

/// Each packet passes equally many rules: what took much longer than most was disturbed by the host.
fn undisturbed(truth: Vec<(u64, u64)>, stalls: Stalls) -> Injected {
    let length = |it: &(u64, u64)| it.1 - it.0;
    let mut lengths: Vec<u64> = truth.iter().map(length).collect();
    lengths.sort_unstable();
    let most_ns = lengths.get(lengths.len() / 2).map_or(0, |ns| ns * 3 / 2);
    let (truth, disturbed) = truth.into_iter().partition(|it| length(it) <= most_ns);
    Injected {
        truth,
        stalls: stalls.and(disturbed),
    }
}

/// How long a packet of the flood keeps a softirq busy.
const BUSY_NS: u64 = 13_000_000;

/// How long the quickest of some packets of the flood takes.
const ONE: &str = r#"
import socket, time
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def one():
    begin = time.monotonic_ns()
    flood.sendto(b"x", ("127.0.0.1", 9))
    return time.monotonic_ns() - begin
print(min(one() for _ in range(20)))
"#;

/// Rules for the port of the flood alone, as many as this machine passes in the time; and replies are steered to this
/// CPU.
fn heavy_softirq(pair: &Namespaces, place: &Place, cpu: usize) -> Result<(), String> {
    // Each way through d is 100,000 rules.
    let load = |ways: u64| {
        let repeated = |count: u64, rule: &str| format!("{rule}\n").repeat(count as usize);
        let rules = format!(
            "table ip heavy {{
             chain c {{ {} }}
             chain d {{ {} }}
             chain a {{ type filter hook input priority 0; {} }}
             }}",
            repeated(1_000, "ip saddr 192.0.2.1 drop"),
            repeated(100, "jump c"),
            repeated(ways, "udp dport 9 jump d;"),
        );
        let script = format!("nft -f - <<'END'\n{rules}\nEND");
        pair.shell(Side::Near, &script).map(drop)
    };
    load(1)?;
    let mut one = pair.command(Side::Near, place, "taskset".as_ref());
    one.args(["-c", &cpu.to_string(), "python3", "-c", ONE]);
    let said = Running::start(one).end().expect(0).stdout;
    let one_ns: u64 = said.trim().parse().expect("a time");
    let script = format!(
        "nft delete table ip heavy\necho {:x} > /sys/class/net/veth0/queues/rx-0/rps_cpus",
        1u64 << cpu
    );
    pair.shell(Side::Near, &script)?;
    eprintln!("100,000 rules in {one_ns} ns");
    load(BUSY_NS.div_ceil(one_ns.max(1)))
}

#[test]
fn a_softirq_that_was_busy_is_named_and_not_the_thread_that_nothing_had_woken() {
    need!(explained_pair(&["nft", "python3", "taskset", "chrt"]));
    let pair = namespaces!();
    let _alone = alone();
    let (ours, other) = (cpus()[0], cpus()[1]);
    let place = Place::new();
    let rules = heavy_softirq(&pair, &place, other);
    need!(rules.map_err(|why| Absent::refused("rules of nft", why)));
    without_tcps_part(&pair).expect("root may");
    let _responder = respond(&pair, &place, &["--once", "-a", &ours.to_string()]);
    // Of several replies in the busy CPU's queue TCP would hold the later ones back on the responder.
    let flags = [
        "measure",
        "tcp",
        FAR,
        "-D",
        "4",
        "-i",
        "29ms",
        "--deadline",
        DEADLINE,
        "-q",
        "-a",
    ];
    // On the other CPU the softirq keeps even such a thread from running.
    let witness = Witness::start(HIGHEST, &[ours]);
    // No ordinary thread comes between its readings of the clock.
    let mut flood = pair.command(Side::Near, &place, "taskset".as_ref());
    flood.args(["-c", &other.to_string(), "chrt", "-f", "10"]);
    flood.args(["python3", "-c", FLOOD]);
    let flooding = Running::start(flood);
    until("it floods", || place.path().join("floods").exists());
    let running = measure(&pair, &place, &[&flags[..], &[&ours.to_string()]].concat());
    let run = judged_run(&place, &running.end());
    flooding.signal(libc::SIGKILL);
    let flooded = flooding.end();
    let stalls = witness.stalls();
    drop(witness);
    assert_eq!(why_not(&run), None);
    let pairs = flooded
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '));
    let truth: Vec<(u64, u64)> = pairs
        .map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
        .collect();
    let by = undisturbed(truth, stalls);
    let is_expected = |stage, cause: &Cause| match cause {
        Cause::Softirq { by: Some(by) } => stage == Stage::Receive && by.task == "softirq NET_RX",
        // It was to go on with the packets, and that softirq had its CPU.
        Cause::NapiThread {
            thread,
            by: Some(by),
        } => {
            let is_next = thread.task.starts_with("ksoftirqd/");
            stage == Stage::Receive && is_next && by.task == "softirq NET_RX"
        }
        _ => false,
    };
    require(&run, &judged(bills(&run), &by, is_expected));
}

#[test]
fn without_the_privilege_or_the_wish_messages_have_bills_without_events() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let pair = namespaces!();
    // Every message is late.
    let flags = ["measure", "tcp", FAR, "-D", "1", "--deadline", "1us"];
    let checked = |place: &Place| {
        let run = place.run_of_path("run");
        let bills = bills(&run);
        assert!(bills.late > 0 && bills.traced == 0, "{bills:?}");
        assert_eq!(run.own_cost.tracer, None);
        why_not(&run)
    };
    let place = Place::new();
    let responder = respond(&pair, &place, &["--once"]);
    let wish = [&flags[..], &["--no-explain", "-q"]].concat();
    measure(&pair, &place, &wish).end();
    responder.end();
    assert_eq!(checked(&place), None);
    let ended = place.run(&["explain", "run"]);
    assert_eq!(ended.code(), 1);
    assert!(
        ended.stderr.contains("`punctual report run -v`"),
        "{}",
        ended.stderr
    );
    let place = Place::new();
    let _responder = respond(&pair, &place, &["--once"]);
    let mut command = pair.command(Side::Near, &place, "setpriv".as_ref());
    command
        .arg("--bounding-set=-sys_admin,-bpf,-perfmon")
        .arg(common::program())
        .args(flags)
        .args(["-o", "run", "--best-effort"])
        .env("PUNCTUAL_TOKEN", crate::path::TOKEN);
    let ended = Running::start(command).end();
    let why = checked(&place).expect("it says why");
    assert!(why.contains("CAP_BPF and CAP_PERFMON"), "{why}");
    let said = flat(&ended.stdout);
    let words = "late messages are explained without the kernel's events: ";
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_responder_that_can_not_explain_says_why_and_answers() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let pair = namespaces!();
    let place = Place::new();
    let ended = place.run(&["respond", "127.0.0.1:0", "--explain"]);
    assert_eq!(ended.code(), 64, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("--explain: give the CPU"),
        "{}",
        ended.stderr
    );
    let mut command = pair.command(Side::Far, &place, "setpriv".as_ref());
    command
        .arg("--bounding-set=-sys_admin,-bpf,-perfmon")
        .arg(common::program())
        .args(["respond", FAR, "--once", "--quiet", "--explain", "-a"])
        .arg(cpus()[0].to_string())
        .env("PUNCTUAL_TOKEN", crate::path::TOKEN);
    let responder = Running::start(command);
    crate::path::await_listening(responder.pid());
    let flags = ["measure", "tcp", FAR, "-D", "1", "--deadline", "1us", "-q"];
    measure(&pair, &place, &flags).end();
    let run = place.run_of_path("run");
    let bills = bills(&run);
    assert!(bills.late > 0 && bills.peer_traced == 0, "{bills:?}");
    let said = flat(&responder.end().stderr);
    assert!(said.contains("CAP_BPF and CAP_PERFMON"), "{said}");
}
