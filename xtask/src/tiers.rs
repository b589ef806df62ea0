//! Which tests are the gate's (`make test`), and which belong to a group of `make test-all`.
//!
//! A test is in the gate unless a rule of a group takes it; of several rules the longest beginning of its
//! name decides. Of several tests of one property the cheapest is the gate's.

use crate::guest::Guests;
use crate::suite::{self, Step};

/// A program of tests, as [`crate::programs::TestProgram::id`] names it, and the beginning of tests' names:
/// the empty one is that of all.
type Rule = (&'static str, &'static str);

/// What `make test-all ARGS=NAME` runs.
#[derive(Debug)]
pub struct Group {
    pub name: &'static str,
    pub about: &'static str,
    tests: &'static [Rule],
    pub steps: &'static [Step],
    /// Tests of the gate that run here too, and kill more often.
    longer: &'static [Rule],
    /// Tests that run in guests.
    pub guests: &'static [Guests],
}

impl Group {
    /// Whether it has a test of a program.
    pub fn has(&self, program: &str) -> bool {
        let mut rules = self.tests.iter().chain(self.longer);
        rules.any(|(of, _)| *of == program)
    }

    /// Whether a test is one of its.
    pub fn takes(&self, program: &str, test: &str) -> bool {
        let longer = || {
            let mut rules = self.longer.iter();
            rules.any(|(of, beginning)| *of == program && test.starts_with(beginning))
        };
        group_of(program, test).is_some_and(|group| group.name == self.name) || longer()
    }
}

/// What the gate keeps of programs that a group takes otherwise.
const GATE: &[Rule] = &[
    ("punctual/lab", "repeat::"),
    ("punctual/lab", "input::unknown_words"),
    ("punctual/lab", "input::a_file_that_is_no_kernel"),
    ("punctual/run", "breach::a_breach_ends"),
    ("punctual/run", "delayed::a_hog_on_the_receivers"),
    ("punctual/run", "loads::a_command_that_stops"),
    ("punctual/run", "raw::what_can_not"),
    ("punctual/run", "robot::what_is_missing"),
    ("punctual/run", "robot::the_robot"),
    ("punctual/run", "stops::a_process_that_is_stopped"),
    ("punctual/run", "stops::a_run_that_ends"),
    ("punctual/run", "throttled::a_quota_that"),
    ("punctual/run", "throttled::a_probe_that_other"),
    ("punctual/run", "throttled::a_probe_that_the_kernel"),
    ("punctual/run", "asked::a_thread_above"),
    ("punctual/run", "prove::path::what_has_no"),
    ("punctual/run", "prove::path::settings_of"),
    ("punctual/fleet", "dataset::what_duckdb"),
    ("punctual/fleet", "dataset::a_batch"),
];

pub const GROUPS: &[Group] = &[
    Group {
        name: "runs",
        about: "whole runs of each verb that take long: ends, stops, loads, limits, examples",
        tests: &[
            ("punctual/run", "exec::functions_of_one"),
            ("punctual/run", "exec::the_examples"),
            ("punctual/run", "exec::a_task_of_several"),
            ("punctual/run", "exec::an_interrupted"),
            ("punctual/run", "exec::a_function_of"),
            ("punctual/run", "exec::a_step_that"),
            ("punctual/run", "cost::the_time_of"),
            ("punctual/run", "cost::real_time"),
            ("punctual/run", "ends::signals_end"),
            ("punctual/run", "ends::records_saved"),
            ("punctual/run", "ends::a_full_disk"),
            ("punctual/run", "ends::many_signals"),
            ("punctual/run", "breach::"),
            ("punctual/run", "attacked::a_run_directory"),
            ("punctual/run", "fit::a_deadline"),
            ("punctual/run", "gaps::a_limit"),
            ("punctual/run", "ladder::the_whole"),
            ("punctual/run", "ladder::an_ordinary"),
            ("punctual/run", "ladder::after_a_kill"),
            ("punctual/run", "launch::programs_use"),
            ("punctual/run", "launch::debugged::threads_work"),
            ("punctual/run", "launch::java"),
            ("punctual/run", "loads::"),
            ("punctual/run", "prove::"),
            ("punctual/run", "path::a_link_that"),
            ("punctual/run", "path::a_responder"),
            ("punctual/run", "raw::"),
            ("punctual/run", "robot::"),
            ("punctual/run", "stops::"),
            ("punctual/run", "throttled::"),
            ("punctual/run", "saving::a_disk_of_any"),
            ("punctual/load", "examples::"),
            ("punctual/load", "generators::additional_work"),
            (
                "punctual/lib",
                "cli::failure::tests::a_flag_of_another_command",
            ),
        ],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "bills",
        about: "bills of injected causes: runs, messages, control groups",
        tests: &[
            ("punctual/run", "delayed::"),
            ("punctual/run", "groups::"),
            ("punctual/run", "culprits::"),
            ("punctual/run", "asked::"),
            ("punctual-network/injected", ""),
        ],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "watch",
        about: "watches that take long: runtimes, containers, units of systemd, Prometheus",
        tests: &[
            ("punctual/watch", "runtime::the_safepoints"),
            ("punctual/watch", "runtime::a_jvm"),
            ("punctual/watch", "runtime::each_collection"),
            ("punctual/watch", "runtime::each_stop"),
            ("punctual/watch", "unit::"),
            ("punctual/watch", "containers::"),
            ("punctual/watch", "service::"),
            ("punctual-report/report", "formats::metrics_peers::"),
        ],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "simulations",
        about: "how often bounds and conclusions are right, by simulation with known truth",
        tests: &[
            ("punctual-stats/stats", "advice::nine_in_ten"),
            ("punctual-stats/stats", "coverage::"),
            ("punctual-stats/stats", "matrix::every_cell"),
            ("punctual-stats/stats", "compare::only_the_cpu"),
            ("punctual-stats/stats", "compare::two_runs_of_one"),
            ("punctual-stats/stats", "experiment::of_eight"),
            ("punctual-stats/stats", "experiment_recorded::of_a_thousand"),
            ("punctual-fleet/fleet", "outliers::"),
        ],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "kills",
        about: "settings and experiments after a thousand kills",
        tests: &[],
        steps: &[],
        longer: &[
            ("punctual-machine/tune", "after_a_kill"),
            ("punctual/lib", "conduct::experiment::kills::"),
        ],
        guests: &[],
    },
    Group {
        name: "lab",
        about: "real kernels in virtual time",
        tests: &[
            ("punctual/lab", ""),
            ("punctual-lab/kernel", "real::"),
            ("punctual-lab/kernel", "damage::"),
            ("punctual-lab/kernel", "images::each_packing"),
        ],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "arm64",
        about: "kernels for arm64 in virtual time, and the library's tests on them",
        tests: &[("punctual/lab", "arm64::")],
        steps: &[],
        longer: &[],
        guests: &[Guests::Arm64],
    },
    Group {
        name: "guests",
        about: "the privileged tests on PREEMPT_RT and on the standard kernel",
        tests: &[],
        steps: &[],
        longer: &[],
        guests: &[Guests::Own],
    },
    Group {
        name: "pages",
        about: "pages in a browser",
        tests: &[
            ("punctual-report/report", "browser::the_page"),
            ("punctual-report/report", "browser::a_telephone"),
            ("punctual-report/report", "lab::hostile_names"),
            ("punctual-report/report", "page::no_short_word"),
        ],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "packages",
        about: "Debian packages, crates and the container image, made, installed and removed",
        tests: &[("punctual/packages", ""), ("punctual/usage", "packages::")],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "fleet",
        about: "Slurm, Ansible and Kubernetes' manifests",
        tests: &[("punctual/fleet", ""), ("punctual-fleet/fleet", "spark::")],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "kubernetes",
        about: "the manifests on a Kubernetes of four nodes, which it builds the first time",
        tests: &[],
        steps: &[suite::KUBERNETES],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "hotplug",
        about: "CPUs that go offline",
        tests: &[("punctual/hotplug", "")],
        steps: &[],
        longer: &[],
        guests: &[],
    },
    Group {
        name: "code",
        about: "Miri, the oldest Rust, licences, rustdoc",
        tests: &[],
        steps: &[
            suite::MIRI,
            suite::OLDEST,
            suite::LICENCES,
            suite::DOCUMENTS,
        ],
        longer: &[],
        guests: &[],
    },
];

/// The group of a test; none for the gate's.
pub fn group_of(program: &str, test: &str) -> Option<&'static Group> {
    rules()
        .filter(|((of, beginning), _)| *of == program && test.starts_with(beginning))
        .max_by_key(|((_, beginning), _)| beginning.len())
        .and_then(|(_, group)| group)
}

/// Whether the gate has a test of a program.
pub fn gate_has(program: &str) -> bool {
    let of_program = |rules: &[Rule], all: bool| {
        let mut rules = rules.iter();
        rules.any(|(of, beginning)| *of == program && (!all || beginning.is_empty()))
    };
    of_program(GATE, false) || !GROUPS.iter().any(|group| of_program(group.tests, true))
}

/// The programs that rules name.
pub fn programs() -> impl Iterator<Item = &'static str> {
    rules().map(|((program, _), _)| program)
}

pub fn named(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

/// Rules of a program that take none of its tests: a test was renamed, and is in another tier now.
pub fn unused<'a>(program: &'a str, tests: &'a [String]) -> impl Iterator<Item = String> + 'a {
    let longer = GROUPS.iter().flat_map(|group| group.longer).copied();
    let rules = rules().map(|(rule, _)| rule).chain(longer);
    rules
        .filter(move |(of, beginning)| {
            *of == program && !tests.iter().any(|test| test.starts_with(beginning))
        })
        .map(|(of, beginning)| {
            format!("xtask/src/tiers.rs: no test of {of} begins with {beginning}")
        })
}

fn rules() -> impl Iterator<Item = (Rule, Option<&'static Group>)> {
    let gate = GATE.iter().map(|rule| (*rule, None));
    let groups = GROUPS.iter().flat_map(|group| {
        let rules = group.tests.iter();
        rules.map(move |rule| (*rule, Some(group)))
    });
    gate.chain(groups)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_rule_and_each_name_is_unique() {
        let rules: Vec<Rule> = rules().map(|(rule, _)| rule).collect();
        assert_eq!(rules.iter().collect::<BTreeSet<_>>().len(), rules.len());
        let names: BTreeSet<_> = GROUPS.iter().map(|group| group.name).collect();
        assert_eq!(names.len(), GROUPS.len());
        let does = |group: &Group| {
            !group.tests.is_empty()
                || !group.steps.is_empty()
                || !group.longer.is_empty()
                || !group.guests.is_empty()
        };
        assert!(GROUPS.iter().all(does));
    }

    #[test]
    fn the_longest_beginning_decides() {
        let group = |program, test| group_of(program, test).map(|group| group.name);
        assert_eq!(group("punctual/lab", "gate::a_growth_fails"), Some("lab"));
        assert_eq!(group("punctual/lab", "arm64::the_table"), Some("arm64"));
        assert_eq!(group("punctual-stats/lib", "misses::a_burst"), None);
        assert!(gate_has("punctual/lab") && gate_has("punctual-stats/lib"));
        assert!(!gate_has("punctual/packages"));
    }

    #[test]
    fn a_rule_that_takes_no_test_is_reported() {
        let tests = ["arm64::one".to_owned()];
        assert!(unused("punctual/lab", &tests).any(|line| line.contains("begins with ")));
        assert_eq!(unused("punctual/none", &tests).count(), 0);
    }
}
