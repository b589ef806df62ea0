//! The published schema and the program's own types are the same thing: real
//! records are valid under it, it names every field that they hold, and it names
//! none that they don't.

use crate::support as record_support;

use std::collections::BTreeSet;
use std::path::Path;

use punctual_record::explanation::KeptWindows;
use punctual_record::*;
use punctual_report::formats::detect_and_read;
use punctual_stats::evidence::HalfEvidence;
use punctual_stats::histogram::Histogram;
use record_support::{latencies, run, run_of, thread};
use serde_json::{Value, json};

/// A schema by its name and version.
pub fn published(name: &str) -> Value {
    let path = format!(
        "{}/../../schema/{name}.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Records of all kinds: with every optional field, of every state and verdict.
fn records() -> Vec<Run> {
    let mut full = run_of(vec![thread(0, &latencies(1, 60_000, 9_000_000), 4096)]);
    full.request.duration_ns = Some(1);
    full.request.loops = Some(1);
    full.request.break_ns = Some(1);
    full.request
        .requirements
        .push(punctual_stats::Requirement::Percentile {
            percentile: 99.9,
            limit_ns: 1_000_000,
        });
    full.request.interval = Interval::Primes {
        interval_ns: 1_000_000,
        seed: 7,
        table_ns: vec![997_001],
    };
    full.timeline.rows[0].misses = 1;
    full.demands[0].mend = Some("setcap".to_owned());
    full.threads[0].error = Some("gone".to_owned());
    full.loads[0].failed = Some("gone".to_owned());
    full.loads[0].idle_run = Some(crate::verdicts::idle(Some(1_000_000)));
    full.loads[0].check = Some(WorkCheck {
        looked_ns: 10_000_000_000,
        idle_ns: 2_000_000_000,
        longest_idle_ns: 1_000_000_000,
        least_cpu_ns: Some(1_000_000),
    });
    full.placement = Some(Placement {
        chosen: Chosen::NohzFull,
        inherited: vec![0],
        reachable: vec![0, 1],
        partition: Some("/sys/fs/cgroup/rt".to_owned()),
        housekeeping: Some(0),
        load: vec![0],
    });
    full.state = State::Stopped {
        reason: "interrupt".to_owned(),
    };
    full.system = full_system();
    full.laboratory = Some(laboratory::Laboratory {
        program: Some("/bin/true".to_owned()),
        ..crate::labs::laboratory("rt")
    });
    full.explanation = Some(crate::bills::explanation());
    let mut stops = Stops::default();
    stops.add(Stop {
        at_ns: 5,
        length_ns: 7,
        cause: StopCause::Debugger,
        cpu: Some(0),
        tid: Some(7),
    });
    full.stops = Some(stops);
    full.own_cost.tracer = Some(TracerCost {
        cpu_ns: 1,
        events: 2,
        lost: 3,
    });
    with_halves(&mut full);
    let blocks = full.blocks.as_mut().unwrap();
    let figures = punctual_stats::compare::BlockFigures {
        count: 3,
        quantiles_ns: [1, 2, 3],
    };
    blocks.threads = vec![vec![figures; blocks.latency.len()]; full.threads.len()];
    full.gaps = Some(gaps());
    full.cross_check = Some(CrossCheck {
        tracer: "osnoise".to_owned(),
        missing: Some("gone".to_owned()),
        measured_ns: 1,
        samples: 2,
        lost: 3,
        figures: vec![CrossFigure::new("noise", 3.0, 2.0)],
    });
    full.conclude(analyse_record(&full).unwrap());
    if let Some(explanation) = &mut full.explanation {
        explanation.kept = Some(KeptWindows {
            windows: 1,
            bytes: 2,
            budget_bytes: 3,
            dropped: 4,
        });
    }
    full.watch = Some(crate::watches::program("controller", full.threads.len()));
    if let Some(watch) = &mut full.watch {
        watch.unfollowed = 1;
        watch.threads[0].skipped_itself = 2;
        watch.threads[0].skips.push(punctual_stats::Skip {
            at_ns: 5_000_000_000,
            count: 2,
            most_ns: 2_010_000,
            least_ns: 1_010_000,
            period_ns: 1_000_000,
            joined: true,
        });
    }
    full.verdict = Some(analyse_record(&full).unwrap().verdict);
    let mut system = run(4);
    system.watch = Some(crate::watches::system("controller"));
    let mut several = run(4);
    let watch = crate::watches::programs("controller", several.threads.len());
    several.watch = Some(watch);

    let mut invalid = run(3);
    invalid.demands[0].standing = Standing::NotInForce;
    invalid.verdict = Some(analyse_record(&invalid).unwrap().verdict);
    let mut several_kinds = run(7);
    several_kinds.verdict = Some(crate::verdicts::every_kind().verdict);
    let mut every_fault = run(8);
    every_fault.verdict = Some(crate::verdicts::invalid().verdict);
    let mut unfinished = run_of(vec![thread(0, &[], 2)]);
    unfinished.state = State::Unfinished;
    unfinished.analysis = None;
    unfinished.verdict = None;
    let inconclusive = run_of(vec![thread(0, &latencies(1, 150, 90_000), 512)]);
    let merged = merge(&[run(1), run(2)], false, Vec::new()).unwrap();
    let mut parts = [run(5), run(6)];
    for part in &mut parts {
        part.explanation = Some(crate::bills::explanation());
        part.watch = Some(crate::watches::program("controller", part.threads.len()));
    }
    let watched = merge(&parts, false, Vec::new()).unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
    let imported = [
        "cyclictest-h200.txt",
        "cyclictest-h20.json",
        "jitterdebugger.json",
    ]
    .map(|name| detect_and_read(&data.join(name)).unwrap());
    let mut records = vec![
        full,
        system,
        several,
        run(1),
        invalid,
        several_kinds,
        every_fault,
        unfinished,
        inconclusive,
        merged,
        watched,
    ];
    records.extend(imported);
    records
}

fn gaps() -> Gaps {
    Gaps {
        subject: Subject::Hardware,
        method: Method::Polling,
        above_ns: 10_000,
        step_ns: 25,
        runtime_ns: 9,
        period_ns: 10,
        sifted: true,
        threads: vec![Watched {
            span_ns: 100,
            polled_ns: 80,
            gap_ns: 10,
            unwatched_ns: 10,
            polls: 4,
            set_aside: 1,
            set_aside_ns: 5,
            untold: 1,
            smi: Some(2),
        }],
    }
}

fn full_system() -> SystemState {
    let mut system = record_support::system();
    system.distribution = Some("Debian".to_owned());
    system.kernel.tainted = Some(0);
    system.processor.microcode = Some("0x1".to_owned());
    system.processor.smt_active = Some(true);
    system.processor.siblings = vec![system::Siblings {
        cpu: 0,
        others: vec![2],
    }];
    system.clock.event_device = Some("lapic".to_owned());
    system.power.frequency_driver = Some("acpi".to_owned());
    system.power.governors = vec![("performance".to_owned(), vec![0])];
    system.power.idle_driver = Some("acpi".to_owned());
    system.power.idle_states = vec![system::IdleState::default()];
    system.power.boost = Some(true);
    system.power.cpu_dma_latency_watched = Some(system::WatchedLatency {
        open: true,
        in_force_us: Some(0),
    });
    system.virtualisation.hypervisor = Some("kvm".to_owned());
    system.virtualisation.container = Some("podman".to_owned());
    system.virtualisation.stolen_ns = Some(1);
    system.virtualisation.stolen_grain_ns = Some(1);
    system.scheduler.rt_period_us = Some(1);
    system.scheduler.rt_runtime_us = Some(-1);
    system.scheduler.rt_group_runtime_us = Some(1);
    system.scheduler.timer_slack_ns = Some(50_000);
    system.scheduler.above = vec![system::TaskAbove::default()];
    system.limits.rtprio = Some(1);
    system.limits.memlock_bytes = Some(1);
    system.limits.rttime_us = Some(1);
    system.limits.rttime_hard_us = Some(2);
    system.memory.transparent_huge_pages = Some("always".to_owned());
    system.memory.numa_balancing = Some(false);
    system.memory.ksm = Some(false);
    system
}

/// An analysis with all that an analysis may hold.
fn with_halves(run: &mut Run) {
    let first = Histogram::try_from(run.threads[0].first_half.as_ref().unwrap()).unwrap();
    let evidence = Evidence::of(run).unwrap();
    let mut view = evidence.view(run);
    view.halves = Some([0, 1].map(|_| HalfEvidence {
        histogram: &first,
        misses: 3,
    }));
    let settings = punctual_stats::Settings {
        confidence: 0.95,
        requirements: run.request.requirements.clone(),
    };
    let analysis = punctual_stats::analyse(&view, &settings);
    run.verdict = Some(analysis.verdict.clone());
    run.analysis = Some(analysis);
}

#[test]
fn records_are_valid_under_the_schema() {
    let schema = published("run-1");
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (index, run) in records().iter().enumerate() {
        let json = serde_json::to_value(run).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&json)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "record {index}: {errors:#?}");
        parse(Path::new("run.json"), json.to_string().as_bytes()).unwrap();
    }
    for (pointer, value) in [
        ("/version", json!(2)),
        ("/request/confidence", json!(1)),
        ("/threads/0/cpu", json!(-1)),
        ("/threads/0/latency", json!({})),
        ("/state", json!({"state": "imaginary"})),
        ("/verdict/outcome", json!("MAYBE")),
    ] {
        let mut json = serde_json::to_value(run(1)).unwrap();
        *json.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&json), "{pointer}");
    }
}

/// Every field of a record with the place in the schema that describes it.
pub fn walk(root: &Value, schema: &Value, value: &Value, place: &str, used: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return walk(root, &root["$defs"][name], value, name, used);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(list) = schema[choice].as_array() {
            let fits = |option: &&Value| match value {
                Value::Null => option["type"] == "null",
                Value::Object(fields) => {
                    option["type"] != "null"
                        && option["required"].as_array().is_none_or(|required| {
                            required
                                .iter()
                                .all(|name| fields.contains_key(name.as_str().unwrap()))
                        })
                        && option["properties"].as_object().is_none_or(|properties| {
                            properties.iter().all(|(name, rule)| {
                                rule.get("const").is_none_or(|c| *c == value[name])
                            })
                        })
                }
                _ => false,
            };
            let option = list.iter().position(|option| fits(&option));
            let option = option.unwrap_or_else(|| panic!("{place}: none of {choice} for {value}"));
            return walk(
                root,
                &list[option],
                value,
                &format!("{place}#{option}"),
                used,
            );
        }
    }
    match value {
        Value::Object(fields) if schema["properties"].is_object() => {
            for (name, value) in fields {
                let rule = schema["properties"]
                    .get(name)
                    .unwrap_or_else(|| panic!("the schema doesn't name {place}.{name}"));
                used.insert(format!("{place}.{name}"));
                walk(root, rule, value, &format!("{place}.{name}"), used);
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                walk(root, &schema["items"], entry, &format!("{place}[]"), used);
            }
        }
        _ => {}
    }
}

/// Every field that the schema names.
pub fn named(schema: &Value, place: &str, names: &mut BTreeSet<String>) {
    for choice in ["anyOf", "oneOf"] {
        for (index, option) in schema[choice].as_array().into_iter().flatten().enumerate() {
            named(option, &format!("{place}#{index}"), names);
        }
    }
    for (name, rule) in schema["properties"].as_object().into_iter().flatten() {
        names.insert(format!("{place}.{name}"));
        named(rule, &format!("{place}.{name}"), names);
    }
    if schema["items"].is_object() {
        named(&schema["items"], &format!("{place}[]"), names);
    }
}

#[test]
fn the_schema_names_what_records_hold_and_nothing_else() {
    let schema = published("run-1");
    let mut names = BTreeSet::new();
    named(&schema, "run", &mut names);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        named(definition, name, &mut names);
    }
    let mut used = BTreeSet::new();
    for run in records() {
        walk(
            &schema,
            &schema,
            &serde_json::to_value(run).unwrap(),
            "run",
            &mut used,
        );
    }
    // An extrapolated tail needs a longer run than a test makes up.
    let never = |name: &&String| {
        !used.contains(*name)
            && !name.starts_with("tail_estimate.")
            && !name.starts_with("tail#0")
            && !name.starts_with("tail#1")
    };
    let unused: Vec<_> = names.iter().filter(never).collect();
    assert!(unused.is_empty(), "no record holds {unused:#?}");
}
