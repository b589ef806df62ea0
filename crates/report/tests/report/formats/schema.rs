//! The published schema is made of the program's own types: real records are valid under it, and
//! it names every field that they hold.

use crate::support as record_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jsonschema::Validator;
use punctual_record::explanation::KeptWindows;
use punctual_record::path::Transport;
use punctual_record::taskset::analysis::Response;
use punctual_record::*;
use punctual_report::formats::detect_and_read;
use punctual_stats::evidence::HalfEvidence;
use punctual_stats::histogram::Histogram;
use record_support::{latencies, run, run_of, thread};
use serde_json::{Value, json};

/// A schema by its name and version.
pub fn published(name: &str) -> Value {
    let mut all = schema::all().into_iter();
    let found = all.find(|(it, _)| it == name);
    found.unwrap_or_else(|| panic!("no schema {name}")).1
}

/// A set that was executed, with every fact of an analysis.
fn analysed() -> Run {
    let mut run = crate::tasksets::executed();
    let mut analysis = crate::exec::whole();
    if let Response::Bounded {
        arrival_in_window_ns,
        ..
    } = &mut analysis.tasks[0].response
    {
        *arrival_in_window_ns = Some(1_000);
    }
    if let Some(tasks) = &mut run.tasks {
        let set = &mut tasks.set;
        set.tasks.resize(analysis.tasks.len(), set.tasks[2].clone());
        set.chains
            .resize(analysis.chains.len(), set.chains[0].clone());
        tasks.tasks.resize(set.tasks.len(), tasks.tasks[2].clone());
        tasks
            .chains
            .resize(set.chains.len(), tasks.chains[0].clone());
        run.threads.resize(set.tasks.len(), run.threads[2].clone());
        tasks.analysis = Some(analysis);
        tasks.all_on_cpu = Some(0);
    }
    run
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
    full.demands[0].fix = Some(Fix::NoSmt);
    full.threads[0].fault = Some(ThreadFault::WaitFailed {
        error: "gone".to_owned(),
    });
    full.loads[0].failed = Some(LoadFailure::Error {
        error: "gone".to_owned(),
    });
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
    full.findings = Some(crate::findings_of_run::findings_of_every_kind());
    full.tuned = crate::findings_of_run::tuned();
    full.state = State::Stopped(Ending::Interrupt);
    full.system = full_system();
    full.request.source = RunSource::Watch {
        of: Some("controller".to_owned()),
    };
    full.laboratory = Some(laboratory::Laboratory {
        program: Some("/bin/true".to_owned()),
        ..crate::labs::laboratory("rt")
    });
    full.explanation = Some(crate::bills::explanation());
    if let Some(explanation) = &mut full.explanation {
        let mut wait = explanation.waits[0].clone();
        for call in [KernelCall::Number(999), KernelCall::FaultOrInterrupt {}] {
            wait.call = call;
            explanation.waits.push(wait.clone());
        }
    }
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
        unread_ns: 1_200_000_000,
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
        tracer: KernelTracer::Osnoise,
        missing: Some(CrossCheckFault::Failed {
            error: "gone".to_owned(),
        }),
        measured_ns: 1,
        samples: 2,
        lost: 3,
        figures: vec![CrossFigure::new(CrossFigureName::Noise, 3.0, 2.0)],
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
            longest_period_ns: 2_000_000,
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
    let mut booted = [run(1), run(2)];
    for (run, boot) in booted.iter_mut().zip(["first", "second"]) {
        run.system.boot_id = Some(boot.to_owned());
    }
    let merged = merge(&booted, false, Vec::new()).unwrap();
    let mut dropped = crate::tasksets::executed();
    if let Some(tasks) = &mut dropped.tasks {
        tasks.tasks[0].dropped = 3;
    }
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
        dropped,
        crate::tasksets::failed(),
        crate::tasksets::undecided(),
        analysed(),
    ];
    let transports = [Transport::Tcp, Transport::Udp, Transport::Raw];
    records.extend(transports.map(crate::paths::measured));
    records.extend(imported);
    records.extend(of_every_kind());
    records
}

/// Records that together hold conditions, events, ends and faults of every kind.
fn of_every_kind() -> Vec<Run> {
    let mut sum = merge(&[run(1), run(2)], false, Vec::new()).unwrap();
    sum.demands = crate::kinds::demands();
    sum.events = crate::kinds::events();
    sum.events[0].run = Some(2);
    sum.system.unread = crate::kinds::unread();
    let merged = sum.merged.as_mut().unwrap();
    merged.differences = crate::kinds::differences();
    merged.invalid = crate::verdicts::every_reason();
    merged.invalid.push(InvalidReason::OutputsLost {
        chain: "loop".to_owned(),
        lost: 2,
    });
    merged.invalid.push(InvalidReason::TaskFailed {
        task: "control".to_owned(),
        fault: taskset::TaskFault::StillBusy {},
    });
    let load = sum.loads[0].clone();
    sum.loads = crate::kinds::load_failures()
        .into_iter()
        .map(|failure| Load {
            failed: Some(failure),
            ..load.clone()
        })
        .collect();
    let mut records = vec![sum];
    for ending in crate::kinds::endings() {
        let mut ended = run(1);
        ended.state = State::Stopped(ending);
        records.push(ended);
    }
    for fault in crate::kinds::thread_faults() {
        let mut broken = run(1);
        broken.threads[0].fault = Some(fault);
        records.push(broken);
    }
    for experiment in crate::experiments::of_every_kind() {
        let mut run = run(1);
        run.experiment = Some(experiment);
        records.push(run);
    }
    let faults = [
        CrossCheckFault::RunEndedEarly,
        CrossCheckFault::NoSamples,
        CrossCheckFault::Failed {
            error: "gone".to_owned(),
        },
    ];
    for fault in faults {
        let mut run = run(1);
        run.cross_check = Some(CrossCheck {
            tracer: KernelTracer::Timerlat,
            missing: Some(fault),
            measured_ns: 0,
            samples: 0,
            lost: 0,
            figures: Vec::new(),
        });
        records.push(run);
    }
    records
}

/// The list of all conditions that are compared is the type's.
#[test]
fn every_aspect_is_compared() {
    let schema = published(&format!("run-{}", Run::VERSION));
    let choices = schema["$defs"]["Aspect"]["oneOf"].as_array().unwrap();
    let named: Vec<&str> = choices
        .iter()
        .map(|choice| choice["const"].as_str().unwrap())
        .collect();
    let listed = conditions::Aspect::ALL.map(|aspect| json!(aspect));
    assert_eq!(listed.to_vec(), named);
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
            longest_untold_ns: 9,
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
    system.virtualisation.hypervisor = Some(crate::kinds::unknown_hypervisor());
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
    system.hardware = Some(system::Hardware {
        model: "ASRock X300M-STX".to_owned(),
        bios: Some("P1.60 01/07/2021".to_owned()),
    });
    system
}

/// An analysis with all that an analysis may hold.
fn with_halves(run: &mut Run) {
    let first = Histogram::try_from(run.threads[0].first_half.as_ref().unwrap()).unwrap();
    let evidence = Evidence::decode(run).unwrap();
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
    let schema = published(&format!("run-{}", Run::VERSION));
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (index, run) in records().iter().enumerate() {
        let json = serde_json::to_value(run).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&json)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "record {index}: {errors:#?}");
        Run::parse(Path::new("run.json"), json.to_string().as_bytes()).unwrap();
    }
    for (pointer, value) in [
        ("/version", json!(1)),
        ("/demands/0/name", json!("imaginary")),
        ("/events/0/kind", json!("imaginary")),
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

/// A schema whose parts are followed along a value.
pub struct Walk<'s> {
    root: &'s Value,
    /// Validators of choices, by their texts.
    choices: BTreeMap<String, Validator>,
    /// The places of the fields that were met.
    pub used: BTreeSet<String>,
}

impl<'s> Walk<'s> {
    pub fn of(root: &'s Value) -> Self {
        Self {
            root,
            choices: BTreeMap::new(),
            used: BTreeSet::new(),
        }
    }

    /// Follows a value, of which every field must be named.
    pub fn whole(&mut self, schema: &Value, value: &Value, place: &str) {
        let named = self.part(schema, value, place);
        for field in value.as_object().into_iter().flatten() {
            assert!(
                named.contains(field.0),
                "the schema doesn't name {place}.{}",
                field.0
            );
        }
    }

    /// Follows a value along a part of its schema; which of its fields that part names.
    fn part(&mut self, schema: &Value, value: &Value, place: &str) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/");
            let root = self.root;
            named.extend(self.part(&root["$defs"][name], value, name));
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(list) = schema[choice].as_array() {
                let at = self.chosen(list, value, place);
                named.extend(self.part(&list[at], value, &format!("{place}#{at}")));
            }
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            named.extend(self.part(part, value, place));
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let property = schema["properties"].get(name);
            let rule = property.or_else(|| schema.get("additionalProperties"));
            if let Some(rule) = rule {
                let place = format!("{place}.{name}");
                if property.is_some() {
                    self.used.insert(place.clone());
                }
                self.whole(rule, value, &place);
                named.insert(name.clone());
            }
        }
        if schema["items"].is_object() {
            for entry in value.as_array().into_iter().flatten() {
                self.whole(&schema["items"], entry, &format!("{place}[]"));
            }
        }
        named
    }

    /// Fields that no record held, but for those that are tried elsewhere.
    pub fn unused<'n>(&self, names: &'n BTreeSet<String>) -> Vec<&'n String> {
        let elsewhere = |name: &str| ELSEWHERE.iter().any(|kind| name.starts_with(kind));
        let unused = |name: &&String| !self.used.contains(*name) && !elsewhere(name);
        names.iter().filter(unused).collect()
    }

    fn fits(&mut self, option: &Value, value: &Value) -> bool {
        let defs = &self.root["$defs"];
        // The same choices are in many places, and a validator takes long to make.
        let validator = self.choices.entry(option.to_string()).or_insert_with(|| {
            let mut option = option.clone();
            option["$defs"] = defs.clone();
            jsonschema::validator_for(&option).unwrap()
        });
        validator.is_valid(value)
    }

    /// The choice that a value is valid under. Where the tag leaves one, it is that one: whether the
    /// record is valid is another test.
    fn chosen(&mut self, list: &[Value], value: &Value, place: &str) -> usize {
        let mut left: Vec<usize> = (0..list.len())
            .filter(|at| !differs(&list[*at], value))
            .collect();
        if left.len() > 1 {
            left.retain(|at| self.fits(&list[*at], value));
        }
        let first = left.first();
        *first.unwrap_or_else(|| panic!("{place}: no choice for {value}"))
    }
}

/// Whether a constant of a choice is another one in the value.
fn differs(option: &Value, value: &Value) -> bool {
    let is_other = |rule: &Value, found: &Value| rule.get("const").is_some_and(|it| it != found);
    let mut fields = option["properties"].as_object().into_iter().flatten();
    is_other(option, value)
        || fields.any(|(name, rule)| value.get(name).is_some_and(|found| is_other(rule, found)))
}

/// Every field that the schema names.
pub fn named(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        fields(definition, name, &mut names);
    }
    names
}

fn fields(schema: &Value, place: &str, names: &mut BTreeSet<String>) {
    for choice in ["anyOf", "oneOf"] {
        for (index, option) in schema[choice].as_array().into_iter().flatten().enumerate() {
            fields(option, &format!("{place}#{index}"), names);
        }
    }
    for (name, rule) in schema["properties"].as_object().into_iter().flatten() {
        names.insert(format!("{place}.{name}"));
        fields(rule, &format!("{place}.{name}"), names);
    }
    if schema["items"].is_object() {
        fields(&schema["items"], &format!("{place}[]"), names);
    }
}

/// Types that made-up records don't hold whole: an extrapolated tail needs a longer run than a test
/// makes up.
pub const ELSEWHERE: [&str; 1] = ["Tail"];

#[test]
fn records_hold_what_the_schema_names() {
    let schema = published(&format!("run-{}", Run::VERSION));
    let mut walk = Walk::of(&schema);
    for run in records() {
        walk.whole(&schema, &serde_json::to_value(run).unwrap(), "run");
    }
    let names = named(&schema);
    let mut unused = walk.unused(&names);
    // A task is one thread.
    unused.retain(|it| *it != "TaskResult.alone");
    assert!(unused.is_empty(), "no record holds {unused:#?}");
}
