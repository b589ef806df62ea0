//! Knobs of the network path, between two network namespaces: they are changed, restored and proven.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use punctual_record::experiment::{Experiment, ExperimentBlock};
use punctual_stats::experiment::{KnobConclusion, LEAST_PAIRS};

use crate::common::namespaces::{FAR, Namespaces, Side};
use crate::common::{Ended, Place, Running, need, needs, program, until};
use crate::path::{TOKEN, respond};

const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";

/// What a command of a side prints.
fn told(pair: &Namespaces, place: &Place, side: Side, words: &[&str]) -> String {
    let mut command = pair.command(side, place, Path::new(words[0]));
    let output = command.args(&words[1..]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The routes, the neighbours without their states that change by themselves, a sysctl, and where
/// packets are received.
fn settings(pair: &Namespaces, place: &Place) -> [String; 4] {
    let near = |words: &[&str]| told(pair, place, Side::Near, words);
    let neighbours = near(&["ip", "neigh", "show"]);
    let words = neighbours.split_whitespace();
    let dynamic = ["REACHABLE", "STALE", "DELAY", "PROBE"];
    let stable: Vec<&str> = words.filter(|word| !dynamic.contains(word)).collect();
    [
        near(&["ip", "-details", "route", "show"]),
        stable.join(" "),
        near(&["cat", SYSCTL]),
        near(&["cat", "/sys/class/net/veth0/threaded"]),
    ]
}

fn near(pair: &Namespaces, place: &Place, arguments: &[&str]) -> Command {
    let mut command = pair.command(Side::Near, place, program());
    command.args(arguments).env("PUNCTUAL_TOKEN", TOKEN);
    command
}

fn tune(pair: &Namespaces, place: &Place, arguments: &[&str]) -> Ended {
    let all = [&["tune"], arguments, &["--state", "state"]].concat();
    Running::start(near(pair, place, &all)).end()
}

/// Late messages and all of them, with the knob off and on.
fn shares(experiment: &Experiment) -> [(u64, u64); 2] {
    let mut sums = [(0, 0); 2];
    for block in experiment.blocks.iter().filter(|it| it.knob == Some(0)) {
        let counts = block.figures.as_ref().and_then(|it| it.late_of_all());
        let (late, all) = counts.unwrap_or_default();
        let sum = &mut sums[usize::from(!block.on.is_empty())];
        *sum = (sum.0 + late, sum.1 + all);
    }
    sums
}

/// A message that is lost has no later data behind it for 30 ms, and is sent again after the
/// time-out, or when the next one is acknowledged. With a shorter time-out of the route it comes
/// before the deadline of 20 ms.
#[test]
fn a_shorter_time_out_of_the_route_helps_against_losses_and_the_control_does_not() {
    need!(needs::rights());
    // Beside a thread that takes a CPU hardly a block counts.
    let _alone = crate::alone::alone();
    let pair = need!(Namespaces::pair());
    let place = Place::new();
    // Messages of 300 bytes, and no others.
    let rule = "ip length 352 tcp dport 7380 numgen inc mod 4 < 1 drop";
    need!(pair.filter(Side::Far, rule));
    for side in [Side::Near, Side::Far] {
        let line = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control";
        told(&pair, &place, side, &["sh", "-c", line]);
    }
    let _responder = respond(&pair, &place, &[]);
    let before = settings(&pair, &place);
    let knob = format!("rto_min@{FAR}=5ms");
    let lengths = "--pilot 2 --block 200ms --settle 150ms -D 24.5 -i 30ms --size 300";
    let rest = "--deadline 20ms --load none --state state -o run";
    let words = ["prove", &knob, "--path", FAR].into_iter();
    let flags: Vec<&str> = words
        .chain(lengths.split(' '))
        .chain(rest.split(' '))
        .collect();
    // A switch takes programs that are started: beside others they'd take longer than a block settles.
    let mut command = pair.command(Side::Near, &place, Path::new("nice"));
    command.args(["-n", "-20"]).arg(program());
    command.args(&flags).env("PUNCTUAL_TOKEN", TOKEN);
    let running = Running::start(command);
    let ended = running.end_within(Duration::from_secs(60));
    let run = place.run_of_path("run");
    let experiment = run.experiment.as_ref().expect("an experiment");
    assert!(experiment.is_of_messages());
    let [(late_off, off), (late_on, on)] = shares(experiment);
    println!(
        "late {late_off} of {off} off, {late_on} of {on} on; {}",
        ended.stdout
    );
    let left_out = |it: &ExperimentBlock| it.left_out.map(|why| (why, it.switching_ns));
    let left_out: Vec<_> = experiment.blocks.iter().filter_map(left_out).collect();
    assert!(off.min(on) >= 20, "{off} and {on} messages; {left_out:?}");
    // A machine that is stopped for 20 ms makes some messages late.
    assert!(late_off * 100 > off * 15, "{late_off} of {off}");
    assert!(late_on * off * 2 < late_off * on, "{late_on} of {on}");
    let [helps, control] = &experiment.results[..] else {
        panic!("{:?}", experiment.results);
    };
    if helps.pairs >= LEAST_PAIRS && control.pairs >= LEAST_PAIRS {
        assert_eq!(helps.conclusion, KnobConclusion::Helps, "{helps:?}");
        assert_eq!(control.conclusion, KnobConclusion::NoEffectShown);
        assert!(ended.stdout.contains(&format!("rto_min@{FAR} helps.")));
        assert_eq!(ended.code(), 0);
    } else {
        // A busy machine: too many blocks were left out.
        assert_eq!(ended.code(), 3, "{}", ended.stdout);
    }
    let after = settings(&pair, &place);
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
}

#[test]
fn settings_of_the_path_are_restored_exactly_also_after_a_kill_and_never_in_another_namespace() {
    let pair = need!(Namespaces::pair());
    let place = Place::new();
    // An entry of the neighbour, and a route that has metrics of its own.
    let route = format!(
        "exec 3<>/dev/udp/{FAR}/9; echo >&3; ip route change 10.79.1.0/24 dev veth0 proto kernel \
         scope link src 10.79.1.1 mtu lock 1400 rto_min 70ms initcwnd 12"
    );
    told(&pair, &place, Side::Near, &["bash", "-c", &route]);
    until("the neighbour is known", || {
        let neighbours = told(&pair, &place, Side::Near, &["ip", "neigh"]);
        neighbours.contains("lladdr")
    });
    // Without it the device has no NAPI.
    let receive_offload = pair.shell(Side::Near, "ethtool -K veth0 gro on");
    let napi = receive_offload
        .is_ok()
        .then(|| "napi@veth0=threads:70".to_owned());
    let before = settings(&pair, &place);
    let knobs = [
        format!("rto_min@{FAR}=5ms"),
        format!("initcwnd@{FAR}=30"),
        format!("quickack@{FAR}"),
        format!("neighbour@{FAR}"),
        "net.ipv4.tcp_slow_start_after_idle=0".to_owned(),
    ];
    let knobs: Vec<&str> = knobs.iter().chain(&napi).map(String::as_str).collect();
    tune(&pair, &place, &[&["apply"], &knobs[..]].concat()).expect(0);
    let tuned = settings(&pair, &place);
    for words in [
        "rto_min lock 5ms",
        "initcwnd 30",
        "quickack 1",
        "mtu lock 1400",
    ] {
        assert!(tuned[0].contains(words), "{words}: {}", tuned[0]);
    }
    assert!(tuned[1].contains("PERMANENT"), "{}", tuned[1]);
    assert_eq!(tuned[2].trim(), "0");
    assert_eq!(tuned[3].trim(), if napi.is_some() { "1" } else { "0" });
    // At boot this namespace does not exist.
    let program = program().display();
    let script = format!("mount -t tmpfs none /etc && exec {program} tune persist --state state");
    let mut persist = pair.command(Side::Near, &place, Path::new("sh"));
    persist.args(["-c", &script]);
    let left_out = Running::start(persist).end().expect(0);
    assert!(
        left_out.stdout.starts_with("Nothing was installed"),
        "{left_out:?}"
    );
    let each: Vec<&str> = left_out.stderr.lines().collect();
    let of_here =
        |line: &&str| line.contains("is left out: it belongs to another network namespace");
    assert_eq!(each.len(), knobs.len(), "{each:?}");
    assert!(each.iter().all(of_here), "{each:?}");
    // Here these names mean other settings.
    let elsewhere = place.run(&["tune", "restore", "--state", "state"]);
    assert_eq!(elsewhere.code(), 1, "{}", elsewhere.stdout);
    assert!(elsewhere.stdout.contains("another network namespace"));
    assert_eq!(settings(&pair, &place), tuned);
    let one = format!("rto_min@{FAR}");
    tune(&pair, &place, &["restore", &one]).expect(0);
    assert!(settings(&pair, &place)[0].contains("rto_min lock 70ms"));
    tune(&pair, &place, &["restore"]).expect(0);
    assert_eq!(settings(&pair, &place), before);

    let mut words = vec!["tune", "run", "--state", "state"];
    words.extend(&knobs);
    words.extend(["--", "sh", "-c", "echo > begun; exec sleep 5"]);
    let running = Running::start(near(&pair, &place, &words));
    until("the command runs", || place.path().join("begun").exists());
    assert_ne!(settings(&pair, &place), before);
    running.signal(libc::SIGKILL);
    running.end();
    assert_ne!(settings(&pair, &place), before);
    tune(&pair, &place, &["restore"]).expect(0);
    assert_eq!(settings(&pair, &place), before);
}

#[test]
fn what_has_no_route_and_no_neighbour_is_refused_in_a_line_and_nothing_is_changed() {
    let pair = need!(Namespaces::pair());
    let place = Place::new();
    let before = settings(&pair, &place);
    for (knob, words) in [
        ("rto_min@192.0.2.1=5ms", "network is unreachable"),
        ("quickack@10.79.1.1", "an address of this machine"),
        ("initcwnd@127.0.0.1=30", "an address of this machine"),
        ("neighbour@10.79.1.77", "no entry on veth0"),
        ("rto_min=5ms", "expected rto_min@HOST"),
        ("napi=threads:70", "expected napi@DEVICE"),
        ("napi@lo=threads:70", "the device has no NAPI"),
        ("napi@nosuch=softirq", "no such device"),
    ] {
        let ended = tune(&pair, &place, &["apply", knob]);
        assert_ne!(ended.code(), 0, "{knob}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{knob}: {}", ended.stderr);
    }
    assert_eq!(settings(&pair, &place), before);
}
