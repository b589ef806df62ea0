//! What a fit says: each end, its page, and what makes its changes again after a reboot.

use std::path::Path;

use crate::needs::Absent;
use punctual_record::explanation::Cause;
use punctual_record::finding::FindingId;
use punctual_record::fit::*;
use punctual_record::remedy::Obstacle;
use punctual_record::tuning::{Change, NetworkDevice, Setting, ThreadIdentity};
use punctual_record::{Document, Tool};
use punctual_report::fit;
use punctual_report::persistent::{Persistence, files};
use punctual_report::style::Style;
use punctual_stats::experiment::KnobConclusion;
use punctual_stats::verdict::Outcome;

const SECOND: u64 = 1_000_000_000;

fn step(directory: &str, what: FitWork) -> FitStep {
    FitStep {
        directory: directory.to_owned(),
        what,
        length_ns: 62 * SECOND,
    }
}

fn qualified(on: &[FindingId], outcome: Outcome, asked: &[FindingId]) -> FitWork {
    FitWork::Qualify {
        on: on.to_vec(),
        outcome,
        samples: 60_000,
        late: 321,
        max_ns: 1_230_000,
        min_ns: 4_000,
        asked: asked.to_vec(),
        makes_valid: Vec::new(),
    }
}

/// A deadline that is met with one of two knobs.
fn met() -> Fit {
    let thread = ThreadIdentity {
        tid: 15,
        name: "ksoftirqd/1".to_owned(),
        start: 44,
    };
    let kept = |knob, setting, value: &str| KeptSetting {
        knob,
        setting,
        value: value.to_owned(),
    };
    let file = |path: &str| Setting::File {
        path: path.to_owned(),
    };
    let proven = |knob, conclusion, ratio| ProvenKnob {
        knob,
        conclusion,
        ratio,
    };
    let asked = [FindingId::VmstatInterval, FindingId::Ksm];
    Fit {
        format: Fit::FORMAT.to_owned(),
        version: Fit::VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: "0.1.0".to_owned(),
        },
        command: vec!["punctual".to_owned(), "fit".to_owned()],
        hostname: "rt-box".to_owned(),
        kernel: "6.1.0-rt".to_owned(),
        started: "2026-11-23T20:00:00Z".to_owned(),
        deadline_ns: 50_000,
        load: "standard load v1".to_owned(),
        cpus: vec![2, 3],
        tuned_for: vec![2, 3],
        priority: 80,
        budget_ns: 7_200 * SECOND,
        steps: vec![
            step("01-qualify", qualified(&[], Outcome::Fail, &asked)),
            step(
                "02-prove",
                FitWork::Prove {
                    knobs: vec![
                        proven(asked[0], KnobConclusion::Helps, Some(0.4)),
                        proven(asked[1], KnobConclusion::NoEffectShown, None),
                    ],
                    is_valid: true,
                    is_short: false,
                    needed_ns: None,
                },
            ),
            step("03-qualify", qualified(&asked[..1], Outcome::Pass, &[])),
        ],
        obstacles: vec![FitObstacle {
            obstacle: Obstacle::Host,
            causes: vec![Cause::Steal],
            total_ns: 5_000_000,
            worst_ns: 900_000,
        }],
        untried_boot: vec![FitBoot {
            knob: FindingId::NohzFull,
            parameter: "nohz_full=2-3".to_owned(),
            total_ns: 3_000_000,
            worst_ns: 80_000,
        }],
        kept: vec![
            kept(
                FindingId::VmstatInterval,
                file("/proc/sys/vm/stat_interval"),
                "10",
            ),
            kept(
                FindingId::DirtyWriteback,
                Setting::Pair {
                    first: "/proc/sys/vm/dirty_ratio".to_owned(),
                    second: "/proc/sys/vm/dirty_bytes".to_owned(),
                },
                "/proc/sys/vm/dirty_bytes 1048576",
            ),
            kept(FindingId::Ksm, file("/sys/kernel/mm/ksm/run"), "0"),
            kept(
                FindingId::IrqAffinity,
                file("/proc/irq/24/smp_affinity_list"),
                "0-1",
            ),
            kept(
                FindingId::SoftirqThreads,
                Setting::Scheduling { thread },
                "1 50 0",
            ),
        ],
        outcome: Some(FitOutcome::Met {
            knobs: vec![asked[0]],
            untried: Vec::new(),
        }),
    }
}

fn asked<'f>(
    fit: &'f Fit,
    kept: &'f [Change],
    program: &'f str,
    state: &'f Path,
) -> Persistence<'f> {
    Persistence {
        kept,
        cpus: &fit.tuned_for,
        priority: Some(fit.priority),
        program,
        state,
    }
}

/// Those that have a text, with the places where they are read.
fn installed(asked: &Persistence<'_>) -> Vec<(&'static str, String)> {
    let files = files(asked).into_iter();
    files
        .filter_map(|it| Some((it.place, it.installed()?)))
        .collect()
}

/// With cgroup v1 too a partition is made again by the unit, and nothing of it before the unit.
#[test]
fn the_parts_of_a_partition_are_made_again_together() {
    let mut fit = met();
    let part = |setting: Setting, value: &str| KeptSetting {
        knob: FindingId::IsolatedCpus,
        setting,
        value: value.to_owned(),
    };
    let top = "/sys/fs/cgroup/cpuset";
    let set = Setting::Cpuset {
        folder: format!("{top}/punctual"),
        is_of_others: false,
    };
    let path = format!("{top}/cpuset.sched_load_balance");
    fit.kept = vec![part(set, "2-3"), part(Setting::File { path }, "0")];
    let files = installed(&asked(
        &fit,
        &fit.changes(),
        "/usr/bin/punctual",
        Path::new("/s"),
    ));
    let places: Vec<&str> = files.iter().map(|(place, _)| *place).collect();
    assert_eq!(places.len(), 2, "{files:#?}");
    assert!(places[0].ends_with("punctual-tune.service"), "{places:?}");
    assert!(places[1].ends_with("multi-user.target.d/punctual.conf"));
    let unit = &files[0].1;
    assert!(unit.contains(" --partition "), "{unit}");
    assert!(unit.contains(" isolated-cpus\n"), "{unit}");
}

#[test]
fn what_is_kept_is_made_again_after_a_reboot() {
    let mut fit = met();
    let device = |path: &str, value: &str| KeptSetting {
        knob: FindingId::ReceiveSteering,
        setting: Setting::File {
            path: path.to_owned(),
        },
        value: value.to_owned(),
    };
    fit.kept.extend([
        device("/sys/class/net/enp3s0/queues/rx-0/rps_cpus", "3"),
        device("/sys/bus/pci/devices/0000:00:1f.0/power/control", "on"),
        // What a file would read as something else is left to the unit.
        device("/sys/kernel/a b", "1"),
        device("/proc/sys/kernel/x", "1\nkernel.y = 2"),
    ]);
    let files = installed(&asked(
        &fit,
        &fit.changes(),
        "/opt/my tools/punctual",
        Path::new("/var/lib/100%"),
    ));
    let head = "# Written by punctual tune persist; punctual tune restore removes it.\n";
    let text = |place: &str| {
        let (_, text) = files.iter().find(|it| it.0 == place).expect(place);
        text.strip_prefix(head).expect("its first line")
    };
    assert_eq!(
        text("/etc/sysctl.d/90-punctual.conf"),
        "vm/stat_interval = 10\nvm/dirty_bytes = 1048576\n"
    );
    assert_eq!(
        text("/etc/tmpfiles.d/punctual.conf"),
        "w /sys/kernel/mm/ksm/run - - - - 0\n"
    );
    assert_eq!(
        text("/etc/udev/rules.d/90-punctual.rules"),
        "ACTION==\"add|move\", SUBSYSTEM==\"net\", KERNEL==\"enp3s0\", \
         ATTR{queues/rx-0/rps_cpus}=\"3\"\n\
         ACTION==\"add|move\", SUBSYSTEM==\"pci\", KERNEL==\"0000:00:1f.0\", \
         ATTR{power/control}=\"on\"\n"
    );
    let unit = text("/etc/systemd/system/punctual-tune.service");
    let start = "ExecStart=\"/opt/my tools/punctual\" tune apply -a 2-3 -p 80 --state \
                 \"/var/lib/100%%\" irq-affinity softirq-threads receive-steering\n";
    assert!(unit.contains(start), "{unit}");
    assert_eq!(
        text("/etc/systemd/system/multi-user.target.d/punctual.conf"),
        "[Unit]\nWants=punctual-tune.service\n"
    );
    assert_eq!(files.len(), 5);
    fit.kept.clear();
    assert!(installed(&asked(&fit, &fit.changes(), "/x", Path::new("/x"))).is_empty());
}

/// What needs a route or a device is turned when there is a network, and again until it is there.
#[test]
fn settings_of_the_network_have_a_unit_of_their_own() {
    let fit = met();
    let namespace = 7;
    let napi = Change {
        knob: "napi@eth0".to_owned().into(),
        setting: Setting::Napi {
            device: NetworkDevice {
                namespace,
                name: "eth0".to_owned(),
            },
        },
        value: "threads fifo:70".to_owned(),
    };
    let sysctl = Change {
        knob: "/proc/sys/net/ipv4/x".to_owned().into(),
        setting: Setting::NetworkFile {
            namespace,
            path: "/proc/sys/net/ipv4/x".to_owned(),
        },
        value: "0".to_owned(),
    };
    let attribute = Change {
        knob: "/sys/devices/pci0/net/eth0/tx_queue_len".to_owned().into(),
        setting: Setting::File {
            path: "/sys/devices/pci0/net/eth0/tx_queue_len".to_owned(),
        },
        value: "9".to_owned(),
    };
    let kept = [napi, sysctl, attribute];
    let files = installed(&asked(&fit, &kept, "/bin/true", Path::new("/s")));
    let text = |name: &str| {
        let found = files.iter().find(|it| it.0.ends_with(name));
        found.map_or("", |it| it.1.as_str())
    };
    assert_eq!(files.len(), 4, "{files:#?}");
    assert!(text("90-punctual.conf").ends_with("\nnet/ipv4/x = 0\n"));
    let rule = "SUBSYSTEM==\"net\", KERNEL==\"eth0\", ATTR{tx_queue_len}=\"9\"\n";
    assert!(text("90-punctual.rules").ends_with(rule), "{files:#?}");
    let unit = text("punctual-tune-network.service");
    let start = "ExecStart=/bin/true tune apply --state /s \"napi@eth0=threads:70\"\n";
    assert!(unit.contains(start), "{unit}");
    assert!(unit.contains("\nAfter=network-online.target\n"), "{unit}");
    let wants = "\nWants=punctual-tune-network.service\n";
    assert!(
        text("multi-user.target.d/punctual.conf").ends_with(wants),
        "{files:#?}"
    );
}

/// The programs that read them, where this machine has them.
#[test]
#[allow(clippy::print_stderr, reason = "what was skipped")]
fn systemd_reads_the_files_as_they_are_meant() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let root = folder.path();
    let write = |path: &str, text: &str| {
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let fit = met();
    let files = installed(&asked(
        &fit,
        &fit.changes(),
        "/bin/true",
        Path::new("/var/lib/100%"),
    ));
    for (place, text) in &files {
        write(place, text);
    }
    write("/sys/kernel/mm/ksm/run", "1\n");
    let run = |program: &str, words: &[&str]| {
        let ended = std::process::Command::new(program).args(words).output();
        ended.ok().map(|ended| {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            (ended.status.success(), said)
        })
    };
    let unit = root.join("etc/systemd/system/punctual-tune.service");
    let unit = unit.to_str().expect("UTF-8");
    match run("systemd-analyze", &["verify", "--man=no", unit]) {
        None => Absent::program("systemd-analyze").report(),
        Some((is_sound, said)) => {
            // It also reads the units of this machine.
            let about = said.lines().filter(|line| line.contains("punctual"));
            assert_eq!(about.collect::<Vec<_>>(), Vec::<&str>::new(), "{is_sound}");
        }
    }
    let root_flag = format!("--root={}", root.display());
    match run("systemd-tmpfiles", &["--create", &root_flag]) {
        None => Absent::program("systemd-tmpfiles").report(),
        Some((is_sound, said)) => {
            assert!(is_sound, "{said}");
            let now = std::fs::read_to_string(root.join("sys/kernel/mm/ksm/run")).expect("it");
            assert_eq!(now.trim(), "0", "{said}");
        }
    }
}

#[test]
fn the_summary_says_what_was_tried_and_what_is_kept() {
    let text = fit::summary(&met(), &Style::plain());
    let joined: Vec<&str> = text.split_whitespace().collect();
    let joined = joined.join(" ");
    for part in [
        "PASS: the machine meets 50 µs with vmstat-interval; it stays changed",
        "01-qualify: FAIL, 321 of 60,000 wake-ups late, the worst 1.23 ms; its bills ask for \
         vmstat-interval, ksm",
        "02-prove: vmstat-interval helps (-60 %); ksm: no effect shown",
        "echo 10 > /proc/sys/vm/stat_interval",
    ] {
        assert!(joined.contains(part), "{part}: {text}");
    }
    assert!(joined.contains("At each boot: punctual tune persist -a 2-3 -p 80 installs"));
    assert!(!text.contains("What no setting helps against"), "{text}");
    assert!(!text.contains("nohz_full"), "it is met without: {text}");
}

#[test]
fn boot_parameters_that_remain_are_named_with_the_command_that_adds_them() {
    let mut fit = met();
    fit.kept.clear();
    fit.outcome = Some(FitOutcome::NothingToTurn);
    fit.untried_boot.push(FitBoot {
        knob: FindingId::IsolatedCpus,
        parameter: "isolcpus=managed_irq,domain,2-3".to_owned(),
        total_ns: 2_000_000,
        worst_ns: 70_000,
    });
    let text = fit::summary(&fit, &Style::plain());
    let joined: Vec<&str> = text.split_whitespace().collect();
    let joined = joined.join(" ");
    for part in [
        "Boot parameters that the bills ask for, not tried",
        "nohz-full: nohz_full=2-3 (bears on 3 ms of late wake-ups, 80 µs of one of them)",
        "isolated-cpus: isolcpus=managed_irq,domain,2-3 (bears on",
        "punctual tune apply --boot -a 2-3 -p 80 nohz-full isolated-cpus, then reboot",
    ] {
        assert!(joined.contains(part), "{part}: {text}");
    }
    let page = fit::page(&fit, "/a b");
    assert!(page.contains("punctual tune apply --boot -a 2-3 -p 80 nohz-full isolated-cpus"));
    assert!(
        page.contains("href=\"/a%20b/01-qualify/report.html\""),
        "{page}"
    );
}

#[test]
fn every_end_has_a_sentence_a_page_and_an_exit_code() {
    let knobs = vec![FindingId::Ksm];
    let ends = [
        (FitOutcome::MetAlready, 0, "nothing was changed"),
        (
            FitOutcome::Met {
                knobs: knobs.clone(),
                untried: knobs.clone(),
            },
            0,
            "was not tried",
        ),
        (FitOutcome::NothingToTurn, 2, "nothing was changed"),
        (FitOutcome::NothingHelps, 2, "everything was restored"),
        (
            FitOutcome::OutOfReach { min_ns: 7_000 },
            2,
            "the fastest took 7 µs",
        ),
        (
            FitOutcome::FirstKeep {
                knobs: vec![FindingId::RtThrottling, FindingId::Ksm],
            },
            2,
            "punctual tune apply rt-throttling ksm, then fit again",
        ),
        (
            FitOutcome::NotEnough { knobs },
            2,
            "ksm helps, but not enough",
        ),
        (
            FitOutcome::BudgetTooSmall {
                needed_ns: 601 * SECOND,
            },
            3,
            "give --budget 11m",
        ),
        (FitOutcome::TooLittleEvidence, 3, "give a longer -D"),
        (FitOutcome::Stopped, 3, "ended by a signal"),
        (FitOutcome::Invalid, 4, "not valid"),
    ];
    for (outcome, status, part) in ends {
        assert_eq!(outcome.verdict().exit_code(), status, "{outcome:?}");
        let word = outcome.verdict().word();
        let mut made = met();
        made.hostname = "<script>".to_owned();
        made.outcome = Some(outcome);
        let sentence = fit::sentence(&made);
        assert!(
            sentence.starts_with(word) && sentence.contains(part),
            "{sentence}"
        );
        let mut style = Style::plain();
        for line in fit::summary(&made, &style).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        style.unicode = false;
        assert!(fit::summary(&made, &style).is_ascii());
        let page = fit::page(&made, "");
        assert!(!page.contains("<script>") && page.contains("01-qualify/report.html"));
        // What was saved is read as it was.
        let text = serde_json::to_string(&made).expect("it");
        assert_eq!(serde_json::from_str::<Fit>(&text).expect("it"), made);
    }
}
