//! Checks bills of real kernels against culprits that record when they ran. Only the guest
//! has the CPU, so every kind must meet the requirements.
#![cfg(feature = "trace")]

use super::common::truth::{Trouble, Wanted, hold, is_seldom, lines};
use super::common::{Place, examples, need};
use super::{lab, ready};

/// The requirements in the laboratory.
const THERE: Wanted = Wanted {
    least: 20,
    blind: 0,
    agent: false,
    named: 99,
    timed: 95,
    off_by_ns: 5_000,
    explained: 99,
    residue: 2.0,
};

#[test]
fn bills_on_both_kernels_name_the_injected_culprits() {
    need!(ready());
    let place = Place::new();
    let program = examples::build("truth");
    let program = program.to_str().expect("UTF-8");
    let words = [
        "--load", "idle", "-o", "a", "--", program, "--count", "30", "--every", "4",
    ];
    let shown = lab(&place, &words).expect(0).stdout;
    let (mut kernels, mut wrong) = (0, Vec::new());
    for part in shown.split("== ").filter(|part| !part.trim().is_empty()) {
        kernels += 1;
        let kernel = part.lines().next().unwrap_or_default();
        let lines = lines(part);
        let mut seldom = 0;
        assert!(lines.len() >= 12, "{shown}");
        let sum = |key: &str| -> u64 { lines.iter().filter_map(|line| line[key].as_u64()).sum() };
        assert!(sum("injected") > 600, "{shown}");
        assert!(sum("traced") * 20 <= sum("injected"), "{kernel}: {shown}");
        for line in &lines {
            if is_seldom(line, THERE) {
                // Time repeats, and with it how often a culprit is in the way.
                assert_eq!(line["named"], line["injected"], "{kernel}: {line:#}");
                seldom += 1;
                continue;
            }
            match hold(line, THERE) {
                Ok(()) => {}
                // There is only one CPU.
                Err(Trouble::Skipped(why)) if why.starts_with("call: ") => {}
                Err(Trouble::Skipped(why) | Trouble::Wrong(why)) => {
                    wrong.push(format!("{kernel}: {why}"));
                }
            }
        }
        assert!(seldom * 4 <= lines.len(), "{kernel}: {shown}");
    }
    assert_eq!(kernels, 2, "{shown}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
