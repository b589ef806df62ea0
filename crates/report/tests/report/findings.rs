//! The words of findings, on every output.

use punctual_record::Tool;
use punctual_record::document::Printed;
use punctual_record::finding::{
    Check, Fault, Finding, FindingFix, FindingId, FindingState, Item, NotApplicable, ReadResult,
    Reading, Seen, StateKind, Unknown,
};
use punctual_report::findings::{
    command, document, explain, junit, page, sentence, summary, text, undo,
};
use punctual_report::style::Style;
use serde_json::json;

use crate::findings_of_run::{findings_of_every_kind, items, seen, sources};
use crate::formats::schema::{Walk, named, published};

/// A text that would control a terminal or end an element.
const HOSTILE: &str = "a\u{1b}[2J</script>\"&'\u{7}";

fn states() -> Vec<FindingState> {
    let texts = || vec![HOSTILE.to_owned(); 9];
    let items = || vec![Item::from(HOSTILE); 9];
    let item = || Item::from(HOSTILE);
    let name = || HOSTILE.to_owned();
    let bad = [
        Fault::Expected(texts()),
        Fault::Unequal,
        Fault::Above(10),
        Fault::Below(10),
        Fault::Includes(vec![2]),
        Fault::Lacks(vec![2, 3]),
        Fault::Present(items()),
        Fault::Missing(items()),
    ]
    .map(|fault| FindingState::Bad { fault });
    let unknown = [
        Unknown::Unreadable(name()),
        Unknown::NotUnderstood(name()),
        Unknown::NotShown(name()),
        Unknown::Absent(item()),
        Unknown::NotMounted {
            filesystem: "debugfs".to_owned(),
            place: "/sys/kernel/debug".to_owned(),
        },
        Unknown::HiddenThreads,
        Unknown::NoConfiguration,
        Unknown::NotRecorded(name()),
    ]
    .map(|why| FindingState::Unknown { why });
    let not_applicable = [
        NotApplicable::Absent(item()),
        NotApplicable::RealTimeKernel,
        NotApplicable::OrdinaryKernel,
        NotApplicable::KernelBefore("6.12".to_owned()),
        NotApplicable::KernelFrom("6.12".to_owned()),
        NotApplicable::CpusNotNamed,
        NotApplicable::NotRequested(name()),
        NotApplicable::Architecture,
        NotApplicable::FewCpus,
    ]
    .map(|why| FindingState::NotApplicable { why });
    let mut all = vec![
        FindingState::Ok,
        FindingState::Information { fault: None },
        FindingState::Information {
            fault: Some(Fault::Below(1)),
        },
    ];
    all.extend(bad);
    all.extend(unknown);
    all.extend(not_applicable);
    all
}

/// A check with each finding, in each state in turn.
fn made() -> Check {
    let states = states();
    let finding = |(at, id): (usize, &FindingId)| Finding {
        id: *id,
        state: states[at % states.len()].clone(),
        readings: vec![
            Reading {
                source: "/sys/a/b".into(),
                result: ReadResult::Value(HOSTILE.to_owned()),
            },
            Reading {
                source: "/sys/a/c".into(),
                result: ReadResult::Absent,
            },
        ],
        fixes: vec![
            FindingFix::Write {
                path: "/sys/a/b".to_owned(),
                value: "it's 1".to_owned(),
            },
            FindingFix::Boot {
                parameter: "nohz_full=2-3".to_owned(),
            },
        ],
    };
    Check {
        version: Check::VERSION,
        hostname: HOSTILE.to_owned(),
        kernel: "6.12".to_owned(),
        cpus: vec![2, 3],
        every_cpu: false,
        priority: Check::PRIORITY,
        findings: FindingId::ALL.iter().enumerate().map(finding).collect(),
    }
}

fn tool() -> Tool {
    Tool {
        name: "punctual".to_owned(),
        version: "0".to_owned(),
    }
}

#[test]
fn a_check_of_every_kind_is_valid_under_the_schema() {
    let schema = published("check-1");
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut whole = made();
    for bad in findings_of_every_kind().bad {
        whole.findings.push(Finding {
            id: bad.id,
            state: FindingState::Bad { fault: bad.fault },
            readings: bad.readings,
            fixes: bad.fixes,
        });
    }
    let json = serde_json::to_value(&whole).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&json)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut walk = Walk::of(&schema);
    walk.whole(&schema, &json, "check");
    let names = named(&schema);
    let unused = walk.unused(&names);
    assert!(unused.is_empty(), "no check holds {unused:#?}");
    for (pointer, value) in [
        ("/version", json!("1")),
        ("/cpus/0", json!(-1)),
        ("/findings/0/id", json!("imaginary")),
        ("/findings/0/state/state", json!("imaginary")),
        ("/findings/0/readings/0/result", json!({})),
    ] {
        let mut json = json.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&json), "{pointer}");
    }
}

#[test]
fn every_finding_has_a_title_a_reason_and_a_source() {
    for id in FindingId::ALL {
        let words = text(*id);
        assert!(!words.title.is_empty() && !words.source.is_empty(), "{id}");
        assert!(words.why.ends_with('.'), "{id}: {}", words.why);
    }
}

#[test]
fn every_state_has_a_sentence() {
    for mut finding in made().findings {
        assert!(!sentence(&finding).trim().is_empty(), "{finding:?}");
        finding
            .readings
            .retain(|it| it.result == ReadResult::Absent);
        assert!(!sentence(&finding).trim().is_empty(), "{finding:?}");
    }
}

/// The sentence of a finding of this state, with this reading.
fn said(state: FindingState, reading: Option<Reading>) -> String {
    sentence(&Finding {
        id: FindingId::Swap,
        state,
        readings: reading.into_iter().collect(),
        fixes: Vec::new(),
    })
}

#[test]
fn every_item_has_its_words() {
    let words = items().into_iter().map(|item| {
        let fault = Fault::Present(vec![item]);
        said(FindingState::Bad { fault }, None)
    });
    let words: Vec<String> = words.collect();
    let expected = [
        "irqbalance",
        "CPU 3",
        "node 1",
        "eth0 (node 0)",
        "rcuop/1 (0-1)",
        "napi/eth0-5 (OTHER 0)",
        "24 eth0 ahci",
        "25 eth1 (12 times in 1000 ms)",
        "C6 (150 \u{b5}s)",
        "clockevent0: hpet",
        "/data (nfs4)",
        "isolcpu=1 (isolcpus?)",
        "1 rule of system calls",
        "2 rules of system calls",
        "nohz_full=1 (not in this kernel)",
        "isolcpus (more than once)",
        "irqaffinity (it includes CPUs of isolcpus)",
        "Linux 5.10 or later",
        "Xenomai Cobalt 3.2.4",
        "threads ksoftirqd/N, rcuc/N",
        "the governor schedutil",
        "the fair server's timer on nohz_full CPUs",
        "a hypervisor",
        "write access",
        "a managed interrupt",
        "a second NUMA node",
        "swap",
    ];
    assert_eq!(words, expected);
    let why = NotApplicable::Absent(Item::Cpu(3));
    let absent = FindingState::NotApplicable { why };
    assert_eq!(said(absent, None), "CPU 3 is absent");
}

#[test]
fn everything_that_is_seen_has_its_words() {
    let words = seen().into_iter().map(|seen| {
        let result = ReadResult::Seen(seen);
        let source = "/sys/a/b".into();
        said(FindingState::Ok, Some(Reading { source, result }))
    });
    let words: Vec<String> = words.collect();
    let expected = [
        "none",
        "no stalld",
        "none of cron, crond",
        "present",
        "readable",
        "on",
        "7",
        "1 of 9",
        "of CPUs 1-2",
        "2 threads at 80 or above",
        "12 parameters, 1 misspelt or unknown",
        "CONFIG_RT_GROUP_SCHED=not set",
        "12 in 1000 ms",
        "not read, it takes two readings",
        "can't be read: modprobe msr, on a processor of Intel",
        "no controller cpu of version 1",
        "works",
        "failed",
        "granted",
        "not claimed",
        "3 on CPUs 1-2",
        "no flag hypervisor",
        "3 programs on CPUs 1-2",
        "flag hypervisor",
        "3 nodes",
        "3 events enabled",
        "3 active",
        "3 devices, all on",
        "hres_active: 3 of 4 CPUs",
        "3 of 4 set",
        "3 of 4 ordinary",
        "3 of 4 devices",
        "24 interrupts, none on CPUs 1-2",
        "24 managed interrupts, none on CPUs 1-2",
        "24 masks, none with CPUs 1-2",
    ];
    assert_eq!(words, expected);
    let words = sources().into_iter().map(|source| {
        let result = ReadResult::Absent;
        said(FindingState::Ok, Some(Reading { source, result }))
    });
    let expected = [
        "running programs is absent",
        "threads irq/N-* is absent",
        "tried: mlock is absent",
        "/sys/a/b is absent",
    ];
    assert_eq!(words.collect::<Vec<_>>(), expected);
}

#[test]
fn nothing_of_a_machine_controls_a_terminal_or_a_page() {
    let check = made();
    let style = Style::plain().verbose(true);
    let mut texts = vec![
        summary(&check, &style),
        page(&check, &tool()),
        junit(&check),
    ];
    texts.extend(FindingId::ALL.iter().map(|id| explain(&check, *id, &style)));
    for text in texts {
        let controls = |c: char| c.is_control() && c != '\n';
        assert!(!text.chars().any(controls), "{text:?}");
    }
    let page = page(&check, &tool());
    assert!(!page.contains("[2J</script>"), "not escaped");
}

#[test]
fn no_table_of_the_page_repeats_the_heading_above_it() {
    let page = page(&made(), &tool());
    let mut headings = 0;
    for section in page.split("<h2").skip(1) {
        let heading = section.split(['>', '<']).nth(1).expect("a heading");
        let caption = section.split("<caption>").nth(1);
        let caption = caption.and_then(|it| it.split('<').next());
        let caption = caption.expect("a table with a caption");
        assert_ne!(heading.to_lowercase(), caption.to_lowercase());
        headings += 1;
    }
    assert_eq!(headings, StateKind::ALL.len());
}

#[test]
fn junit_counts_what_the_check_counts() {
    let check = made();
    let xml = junit(&check);
    let count = |element: &str| xml.matches(element).count();
    assert_eq!(count("<testcase "), FindingId::ALL.len());
    assert_eq!(count("<failure "), check.count(StateKind::Bad));
    assert_eq!(count("<error "), check.count(StateKind::Unknown));
    assert_eq!(count("<skipped "), check.count(StateKind::NotApplicable));
    let counts = format!("failures=\"{}\"", check.count(StateKind::Bad));
    assert_eq!(count(&counts), 2, "{xml}");
}

#[test]
fn a_fix_is_a_command_of_a_shell_and_says_how_it_is_undone() {
    let check = made();
    let finding = &check.findings[0];
    let of = |fix: FindingFix| (command(finding, &fix), undo(&fix));
    for (fix, said) in [
        (finding.fixes[0].clone(), r"echo 'it'\''s 1' > /sys/a/b"),
        (finding.fixes[1].clone(), "boot with nohz_full=2-3"),
        (
            FindingFix::Scheduling {
                thread: "ktimers/0".to_owned(),
                tid: 51,
                policy: "fifo".to_owned(),
                priority: 2,
            },
            "chrt -f -p 2 51    # ktimers/0",
        ),
        (
            FindingFix::Affinity {
                thread: "rcuop/2".to_owned(),
                tid: 30,
                cpus: vec![0, 1],
            },
            "taskset -pc 0-1 30    # rcuop/2",
        ),
    ] {
        assert_eq!(of(fix).0, said);
    }
    assert_eq!(of(finding.fixes[0].clone()).1, "undone exactly");
}

/// `PUNCTUAL_BLESS=1` writes it anew.
#[test]
fn the_page_of_findings_is_made_from_their_texts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
    let made = document();
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        std::fs::write(path, &made).expect("written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == made,
        "{path}: write it anew with PUNCTUAL_BLESS=1"
    );
}

/// The command that `summary` prints for a finding that is bad at this priority.
fn knob_command(priority: u32) -> String {
    let mut check = made();
    check.priority = priority;
    check
        .findings
        .retain(|finding| finding.id == FindingId::Swap);
    check.findings[0].state = FindingState::Bad {
        fault: Fault::Above(10),
    };
    let style = Style {
        width: 120,
        ..Style::plain()
    };
    let text = summary(&check, &style);
    let line = text.lines().find_map(|line| line.split_once("all of it: "));
    line.expect("a command").1.to_owned()
}

#[test]
fn the_command_of_a_knob_repeats_the_priority_that_was_named() {
    assert_eq!(knob_command(80), "sudo punctual tune apply -a 2-3 swap");
    assert_eq!(
        knob_command(50),
        "sudo punctual tune apply -a 2-3 -p 50 swap"
    );
}

#[test]
fn a_finding_whose_fix_a_kernel_may_lack_says_what_to_do_by_hand() {
    for id in [
        FindingId::IsolatedCpus,
        FindingId::NohzFull,
        FindingId::RcuNocbs,
        FindingId::KthreadCpus,
        FindingId::ManagedIrqs,
        FindingId::Threadirqs,
        FindingId::RtGroupSched,
        FindingId::SmtSiblings,
        FindingId::DefaultIrqAffinity,
        FindingId::ThreadedNapi,
        FindingId::Governor,
    ] {
        assert!(!text(id).by_hand.is_empty(), "{id}");
    }
}

#[test]
fn the_cpus_to_take_instead_are_named() {
    let mut check = made();
    check.findings.retain(|it| it.id == FindingId::SmtSiblings);
    let finding = &mut check.findings[0];
    finding.readings.push(Reading {
        source: "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list[0]".into(),
        result: ReadResult::Seen(Seen::OfCpus(vec![0, 1, 3])),
    });
    let words = command(finding, &FindingFix::ByHand);
    let named = "(the first threads of these cores: CPUs 0-1,3)";
    assert!(words.ends_with(named), "{words}");
    assert!(words.contains("take the first thread of each core"));
}
