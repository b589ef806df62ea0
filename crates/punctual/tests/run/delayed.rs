//! What ran instead of the threads of a path, and of those that receive its packets: injected on this
//! machine, and named by the kernel's events.

mod there;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual_record::path::bill::{
    MessageBills, MessageCause as Cause, MessageEvidence as Evidence, MessageStage as Stage, Runner,
};
use punctual_record::{Happening, Run};
use punctual_report::facts;

use crate::alone::alone;
use crate::common::namespaces::{FAR, Namespaces, Side};
use crate::common::{self, Ended, Place, Running, cpus, flat, has, is_root, skip, why_invalid};
use crate::hog::{NAME, PRIORITY, Truth, hog};
use crate::path::{measure, namespaces, path, respond};

/// Later than this, a message has a bill.
const DEADLINE: &str = "5ms";

/// A run of 4 s while the hog takes a CPU, and when it did.
fn hogged(pair: &Namespaces, cpu: usize, flags: &[&str]) -> (Run, Vec<(u64, u64)>) {
    let flags = [&["--deadline", DEADLINE], flags].concat();
    let (run, truth, _) = hogged_with(pair, cpu, &flags, &[]);
    (run, truth)
}

/// The same with flags of the responder, and what that says.
fn hogged_with(
    pair: &Namespaces,
    cpu: usize,
    flags: &[&str],
    responders: &[&str],
) -> (Run, Vec<(u64, u64)>, String) {
    let place = Place::new();
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
    let run = judged_run(&place, &ended);
    (run, truth, flat(&responding.end().stderr))
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

/// Of the worst messages those of whose latency the hog took at least three quarters: how many they
/// are, and of how many the main cause is as expected.
fn judged(
    bills: &MessageBills,
    truth: &[(u64, u64)],
    is_expected: impl Fn(Stage, &Cause) -> bool,
) -> (usize, usize) {
    let (mut injected, mut named) = (0, 0);
    for bill in &bills.worst {
        let (from_ns, to_ns) = (bill.requested_ns, bill.requested_ns + bill.latency_ns);
        let inside = |it: &(u64, u64)| it.1.min(to_ns).saturating_sub(it.0.max(from_ns));
        let hog_ns: u64 = truth.iter().map(inside).sum();
        if hog_ns < bill.latency_ns / 4 * 3 {
            continue;
        }
        injected += 1;
        let main = bill.main().expect("a row");
        if is_expected(main.stage, &main.cause) {
            named += 1;
            let events = match main.stage {
                Stage::PeerReceive | Stage::PeerWakeUp => Evidence::PeerEvents,
                _ => Evidence::Events,
            };
            assert!(main.evidence.contains(&events), "{bill:?}");
        } else {
            eprintln!("{bill:?}");
        }
    }
    (injected, named)
}

/// Messages were late by the hog, it is named in nine of ten of them, and the rows sum.
fn require_named(bills: &MessageBills, (injected, named): (usize, usize)) {
    assert!(injected >= 5, "{injected} injected");
    assert!(named * 10 >= injected * 9, "{named} of {injected} named");
    for bill in &bills.worst {
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns);
    }
    assert!(bills.is_consistent());
}

/// The same, by the kernel's events of this side.
fn require(run: &Run, (injected, named): (usize, usize)) {
    let bills = bills(run);
    eprintln!(
        "{named} of {injected} named; {} late, {} with events; tracer {:?}",
        bills.late, bills.traced, run.own_cost.tracer
    );
    require_named(bills, (injected, named));
    assert!(bills.traced * 10 >= bills.late * 9, "{bills:?}");
    let cost = run.own_cost.tracer.expect("its cost");
    assert!(cost.events > 0 && cost.cpu_ns > 0, "{cost:?}");
}

fn is_hog(by: &Runner) -> bool {
    by.task == NAME && by.policy == "SCHED_FIFO" && by.priority == PRIORITY && by.tid > 0
}

#[test]
fn a_hog_on_the_receivers_cpu_is_named() {
    if cpus().len() < 2 {
        skip!("one CPU");
    }
    let pair = namespaces!();
    let _alone = alone();
    let (sender, receiver) = (cpus()[0], cpus()[1]);
    let both = format!("{sender},{receiver}");
    let (run, truth) = hogged(&pair, receiver, &["-a", &both]);
    if let Some(why) = why_not(&run) {
        skip!("{why}");
    }
    let is_expected = |stage, cause: &Cause| match cause {
        Cause::NotScheduled { by: Some(by) } => stage == Stage::WakeUp && is_hog(by),
        _ => false,
    };
    require(&run, judged(bills(&run), &truth, is_expected));
    // What delayed few messages is among the causes of all of them, without its number.
    let ranked = bills(&run).ranking.iter().find(|it| {
        matches!(&it.cause, Cause::NotScheduled { by: Some(by) } if by.task == NAME && by.tid == 0)
    });
    // Each time it took the CPU for five periods.
    let hogs = truth.len() as u64;
    assert!(ranked.is_some_and(|it| it.main >= hogs / 2), "{ranked:?}");
}

/// The priority of the thread of NAPI: nothing but the hog is above it on its CPU.
const BELOW: u32 = PRIORITY - 20;

/// What [`threaded_napi`] uses and this machine lacks.
fn lacks_for_napi() -> Option<&'static str> {
    let mut used = ["ethtool", "pgrep", "taskset", "chrt"].into_iter();
    used.find(|it| !has(it))
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
    if cpus().len() < 2 {
        skip!("one CPU");
    }
    if let Some(lacks) = lacks_for_napi() {
        skip!("there is no {lacks}");
    }
    let pair = namespaces!();
    let _alone = alone();
    let (ours, other) = (cpus()[0], cpus()[1]);
    if let Err(why) = threaded_napi(&pair, Side::Near, other, BELOW) {
        skip!("no threaded NAPI: {why}");
    }
    let (run, truth) = hogged(&pair, other, &["-a", &ours.to_string()]);
    if let Some(why) = why_not(&run) {
        skip!("{why}");
    }
    let is_expected = |stage, cause: &Cause| stage == Stage::Receive && is_napi_below_hog(cause);
    require(&run, judged(bills(&run), &truth, is_expected));
}

/// Each packet keeps the softirq of its CPU busy for some 13 ms: it passes that many rules. Prints when.
const FLOOD: &str = r#"
import socket, sys, time
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.085)
    for _ in range(2):
        begin = time.monotonic_ns()
        flood.sendto(b"x", ("127.0.0.1", 9))
        print(begin, time.monotonic_ns())
"#;

/// Rules for the port of the flood alone; and replies are steered to this CPU.
fn heavy_softirq(pair: &Namespaces, cpu: usize) -> Result<(), String> {
    let repeated = |count: usize, rule: &str| format!("{rule}\n").repeat(count);
    let rules = format!(
        "table ip heavy {{
         chain c {{ {} }}
         chain b {{ {} }}
         chain d {{ {} }}
         chain a {{ type filter hook input priority 0; udp dport 9 jump d; udp dport 9 jump d; }}
         }}",
        repeated(1_000, "ip saddr 192.0.2.1 drop"),
        repeated(100, "jump c"),
        repeated(10, "jump b"),
    );
    let script = format!(
        "nft -f - <<'END'\n{rules}\nEND\necho {:x} > /sys/class/net/veth0/queues/rx-0/rps_cpus",
        1u64 << cpu
    );
    pair.shell(Side::Near, &script).map(drop)
}

#[test]
fn a_softirq_that_was_busy_is_named_and_not_the_thread_that_nothing_had_woken() {
    if cpus().len() < 2 {
        skip!("one CPU");
    }
    if let Some(lacks) = ["nft", "python3", "taskset"]
        .into_iter()
        .find(|it| !has(it))
    {
        skip!("there is no {lacks}");
    }
    let pair = namespaces!();
    let _alone = alone();
    let (ours, other) = (cpus()[0], cpus()[1]);
    if let Err(why) = heavy_softirq(&pair, other) {
        skip!("no rules of nft: {why}");
    }
    let place = Place::new();
    let _responder = respond(&pair, &place, &["--once", "-a", &ours.to_string()]);
    let flags = [
        "measure",
        "tcp",
        FAR,
        "-D",
        "4",
        "-i",
        "5ms",
        "--deadline",
        DEADLINE,
        "-q",
        "-a",
    ];
    let running = measure(&pair, &place, &[&flags[..], &[&ours.to_string()]].concat());
    let mut flood = pair.command(Side::Near, &place, "taskset".as_ref());
    flood.args(["-c", &other.to_string(), "python3", "-c", FLOOD, "4"]);
    let flooded = Running::start(flood).end();
    let run = judged_run(&place, &running.end());
    if let Some(why) = why_not(&run) {
        skip!("{why}");
    }
    let pairs = flooded
        .stdout
        .lines()
        .filter_map(|line| line.split_once(' '));
    let truth: Vec<(u64, u64)> = pairs
        .map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
        .collect();
    let is_expected = |stage, cause: &Cause| match cause {
        Cause::Softirq { by: Some(by) } => stage == Stage::Receive && by.task == "softirq NET_RX",
        _ => false,
    };
    require(&run, judged(bills(&run), &truth, is_expected));
}

#[test]
fn without_the_privilege_or_the_wish_messages_have_bills_without_events() {
    if !is_root() || !has("setpriv") {
        skip!("it takes root and setpriv to give privileges up");
    }
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
    if !is_root() || !has("setpriv") {
        skip!("it takes root and setpriv to give privileges up");
    }
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
