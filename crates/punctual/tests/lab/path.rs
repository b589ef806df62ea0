//! A path between two network namespaces of a guest, in virtual time: the messages that the queue drops
//! are the late ones, and the bills say so.

use crate::common::{Ended, Place, need};
use crate::userspace::write;
use crate::{lab, ready};

/// netem drops, and a message behind the dropped one shows TCP the loss. Replies pass nothing that drops.
const SCRIPT: &str = "./tc qdisc add dev here root netem delay 2ms loss 4%
./ip netns exec far punctual respond 10.0.0.2 --once -q >/dev/null 2>&1 &
./sleep 0.5
punctual measure tcp 10.0.0.2 -D 4 -i 10013 --deadline 10ms --no-explain -q -o /tmp/y >/dev/null || true
./tc -s qdisc show dev here
./cat /tmp/y/run.json
";

/// Two namespaces of a guest that are connected by a pair of virtual devices.
const NAMESPACES: &str = "#!/bin/sh
export PUNCTUAL_TOKEN=0123456789abcdef0123456789abcdef
set -e
cd /lab/bin
./ip netns add far
./ip link add here type veth peer name there netns far
./ip addr add 10.0.0.1/24 dev here
./ip link set here up
./ip -n far addr add 10.0.0.2/24 dev there
./ip -n far link set there up
";

/// Runs a script in a guest with such namespaces, and with these modules.
pub fn between_namespaces(place: &Place, modules: &[&str], script: &str) -> Ended {
    let script = format!("{NAMESPACES}{script}");
    write(&place.path().join("path.sh"), script.as_bytes(), 0o755);
    let mut words = vec!["--kernel", "rt", "--virtual-limit", "25s"];
    for module in [&["veth"], modules].concat() {
        words.extend(["--module", module]);
    }
    for file in ["/bin/sleep", "/bin/cat", "/sbin/ip", "/sbin/tc"] {
        words.extend(["--bring", file]);
    }
    words.extend(["-o", "a", "--", "./path.sh"]);
    lab(place, &words).expect(0)
}

#[test]
fn what_a_queue_dropped_is_named_as_lost_and_never_as_a_queue_or_a_thread() {
    need!(ready());
    let place = Place::new();
    let ended = between_namespaces(&place, &["sch_netem"], SCRIPT);
    let (queue, run) = ended
        .stdout
        .split_at(ended.stdout.find('{').expect("a record"));
    let run: serde_json::Value = serde_json::from_str(run).expect("a record");
    let dropped: u64 = queue
        .split_once("dropped ")
        .and_then(|(_, rest)| rest.split(',').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{queue}"));
    let bills = &run["path"]["bills"];
    let late = bills["late"].as_u64().expect("a number");
    // Which are dropped depends on every byte of the guest. A part of the warm-up may be, too, or an
    // acknowledgement; and messages behind a dropped one wait for it.
    assert!(late >= 5 && late <= 4 * dropped, "{late} of {dropped}");
    let at_least = |count: u64, what: &str| {
        assert!(count * 10 >= late * 9, "{what}: {count} of {late}: {bills}");
    };
    at_least(bills["explained"].as_u64().expect("a number"), "explained");
    let is_loss = |kind: &serde_json::Value| {
        let losses = ["fast-retransmit", "loss-probe", "timeout", "retransmission"];
        losses.iter().any(|loss| kind == loss)
    };
    let causes = bills["ranking"].as_array().expect("causes").iter();
    let by_loss = causes.filter(|it| is_loss(&it["cause"]["kind"]));
    at_least(by_loss.filter_map(|it| it["main"].as_u64()).sum(), "lost");
    let mut dropped_here = 0;
    for bill in bills["worst"].as_array().expect("bills") {
        let rows = bill["rows"].as_array().expect("rows");
        let main = rows
            .iter()
            .max_by_key(|row| row["ns"].as_u64())
            .expect("a row");
        // Its own delay is 2 ms, which is never the most.
        assert_ne!(main["cause"]["kind"], "queue", "{bill}");
        let shown = main["evidence"].to_string();
        dropped_here += usize::from(shown.contains("dropped-in-queue"));
    }
    assert!(dropped_here >= 2, "{bills}");
}
