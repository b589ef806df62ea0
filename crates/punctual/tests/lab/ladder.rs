//! The rungs in virtual time: each gains what it must, exactly.

use punctual_record::Document;
use punctual_record::ladder::{Ladder, Rung};
use serde_json::Value;

use super::common::{Place, need, read_json};
use super::{lab, ready};

#[test]
fn each_rung_gains_what_it_must_on_both_kernels_and_locked_memory_ends_every_fault() {
    need!(ready());
    let place = Place::new();
    let words = ["run", "ladder", "--load", "idle", "--no-explain", "-o", "a"];
    lab(&place, &words).expect(0);
    let record = read_json(&place.path().join("a/lab.json"));
    let cells = record["cells"].as_array().expect("cells");
    // Virtual time has one processor, and no other for two of the rungs.
    assert_eq!(cells.len(), 2 * 4);
    for kernel in ["rt", "standard"] {
        let cell = |rung: Rung| -> &Value {
            let name = format!("{kernel} {}", rung.name());
            let mut cells = cells.iter();
            cells.find(|cell| cell["kernel"] == name).expect(&name)
        };
        let figure = |rung: Rung, name: &str| cell(rung)["figures"][name].as_f64().expect(name);
        let is_lower = |name: &str, low: Rung, high: Rung| {
            let (low_ns, high_ns) = (figure(low, name), figure(high, name));
            assert!(
                low_ns < high_ns,
                "{kernel} {low:?} {name}: {low_ns}, {high_ns}"
            );
        };
        is_lower("mean_ns", Rung::AbsoluteSleep, Rung::RelativeSleep);
        // The slack of an ordinary thread's timers is 50 us.
        let gain = figure(Rung::AbsoluteSleep, "mean_ns") - figure(Rung::Priority, "mean_ns");
        assert!(gain > 40_000.0, "{kernel}: {gain}");
        // More than one cycle in 100 takes a fault without locked memory.
        is_lower("p99_ns", Rung::LockedMemory, Rung::Priority);
        for rung in Rung::ALL.into_iter().take(4) {
            let folder = cell(rung)["directory"].as_str().expect("a directory");
            let folder = place.path().join("a").join(folder).join("run");
            let ladder = Ladder::read(&folder).expect("a rung");
            let [block] = &ladder.blocks[..] else {
                panic!("{:?}", ladder.blocks);
            };
            let counts = &block.counts;
            assert_eq!(counts.cycles, 2_000);
            assert_eq!(cell(rung)["figures"]["samples"], 2_000);
            // 2,000 lines of 64 bytes; the first may begin within a page.
            assert!((31..=32).contains(&counts.fresh_pages), "{counts:?}");
            let faults = match rung {
                Rung::LockedMemory => 0,
                _ => counts.fresh_pages,
            };
            assert_eq!(counts.faults(), faults, "{kernel} {rung:?}");
            assert_eq!(block.in_force.locked_kib > 0, rung == Rung::LockedMemory);
            let is_fifo = rung.has(Rung::Priority);
            assert_eq!(
                block.in_force.policy,
                if is_fifo { "fifo" } else { "other" }
            );
        }
    }
}
