//! Bills for people: what to do, the picture, the trace for Perfetto.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;
use punctual_record::explanation::{
    Cause, Culprit, Keeper, Lane, Mark, MarkLabel, NotSeen, OrdinaryTime, Picture, Span, SpanLabel,
    Stage,
};
use punctual_record::{Event, Happening, Ledger, Run};
use punctual_report::chart::{Form, outlier};
use punctual_report::explain::perfetto::{self, Outlier};
use punctual_report::explain::{
    against, around, bill_section, fix, intervals, name, needed, section,
};
use punctual_report::style::{Style, wrap_commands};
use punctual_report::terminal::summary;
use punctual_report::terms::Terms;

use super::bills::{bill_of, causes};
use super::fixtures as report_fixtures;

#[test]
fn every_cause_has_a_name_of_its_own_and_most_have_a_mend() {
    let run = report_fixtures::good();
    let names: Vec<String> = causes().iter().map(name).collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:#?}");
    let without: Vec<Cause> = causes()
        .into_iter()
        .filter(|cause| fix(cause, &run).is_none())
        .collect();
    assert_eq!(
        without,
        [
            Cause::WakePath,
            Cause::Crossing,
            Cause::Probe,
            Cause::Tracer,
            Cause::Other,
            Cause::Unexplained,
            Cause::Blind
        ]
    );
}

#[test]
fn mends_name_the_cpus_of_the_run_and_quote_what_a_record_says() {
    let mut run = report_fixtures::good();
    run.request.cpus = vec![2, 3];
    run.system.processor.online = vec![0, 1, 2, 3];
    let irq = Cause::Interrupt {
        irq: 36,
        name: "virtio0".to_owned(),
    };
    let text = fix(&irq, &run).unwrap();
    assert!(
        text.contains("`sudo punctual tune apply /proc/irq/36/smp_affinity_list=0-1`"),
        "{text}"
    );
    let thread = |task: &str, priority| Cause::Thread {
        task: task.to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority,
    };
    let text = fix(&thread("irq/36-virtio0", 90), &run).unwrap();
    assert!(
        text.contains("/proc/irq/36/smp_affinity_list=0-1"),
        "{text}"
    );
    let group = Cause::GroupThrottled {
        group: "/sys/fs/cgroup/a'; reboot; '".to_owned(),
        file: "cpu.max".to_owned(),
    };
    let text = fix(&group, &run).unwrap();
    let quoted = r"'/sys/fs/cgroup/a'\''; reboot; '\''/cpu.max=max'";
    assert!(text.contains(quoted), "{text}");
    // Another priority for a thread that is below anyway would change nothing.
    let text = fix(&thread("logger", 50), &run).unwrap();
    assert!(text.contains("shorten what logger does"), "{text}");
    let tick = Cause::TimerCallback {
        function: "tick_nohz_handler".to_owned(),
    };
    assert!(fix(&tick, &run).unwrap().contains("nohz_full=2-3"));
}

#[test]
fn limits_of_real_time_threads_are_lifted_where_that_is_possible_with_a_warning() {
    let mut run = report_fixtures::good();
    let throttled = Cause::Throttled {
        task: "cc1".to_owned(),
    };
    let kept = |by, locked: Option<&str>| OrdinaryTime {
        by,
        kept_ns: 50_000_000,
        period_ns: 1_000_000_000,
        locked: locked.map(str::to_owned),
    };
    let advice = |run: &Run, cpus: &[usize], kept: Vec<OrdinaryTime>| {
        let mut run = run.clone();
        run.request.cpus = cpus.to_vec();
        run.explanation.get_or_insert_default().ordinary_time = kept;
        fix(&throttled, &run).unwrap()
    };
    let text = advice(&run, &[0, 2, 3], vec![kept(Keeper::FairServer, None)]);
    let of = |cpu| format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime=0");
    let command = format!("`sudo punctual tune apply {} {} {}`", of(0), of(2), of(3));
    assert!(text.contains(&command), "{text}");
    assert!(
        text.contains("dangerous") && !text.contains("sched_rt_runtime_us"),
        "{text}"
    );
    // What can't be changed is no advice.
    let locked = kept(Keeper::FairServer, Some("operation not permitted"));
    let text = advice(&run, &[1], vec![locked.clone()]);
    assert!(
        text.contains("can't be changed on this machine: operation not permitted"),
        "{text}"
    );
    assert!(!text.contains('`') && !text.contains("dangerous"), "{text}");
    let both = vec![locked, kept(Keeper::RtThrottling, None)];
    let text = advice(&run, &[1], both);
    assert!(
        text.contains("`sudo punctual tune apply kernel.sched_rt_runtime_us=-1`"),
        "{text}"
    );
    let text = advice(&run, &[1], Vec::new());
    assert!(!text.contains('`'), "{text}");
    // An ordinary thread is not what these limits bound.
    run.request.policy = "other".to_owned();
    let text = advice(&run, &[1], vec![kept(Keeper::RtThrottling, None)]);
    assert!(!text.contains("sched_rt_runtime_us"), "{text}");
    assert!(text.contains("cpu.max"), "{text}");
    // The wake-up before has a bill of its own.
    let earlier = Cause::Blocked {
        state: "earlier-timer".to_owned(),
    };
    assert_eq!(fix(&earlier, &run), None);
    assert_eq!(name(&earlier), "its previous wake-up was late");
}

/// However many events and problems a run had, what took most of the time stands on the first screen.
#[test]
fn a_summary_names_the_causes_that_have_four_fifths_of_the_time() {
    let mut ledger = Ledger::new(Some(1_000));
    for at in 0..8_u64 {
        let cause = Cause::Call {
            function: format!("function_{at}"),
        };
        ledger.add(&bill_of(
            0,
            at * 1_000_000,
            &[(Stage::Switch, cause, 100_000)],
        ));
    }
    let mut run = report_fixtures::good();
    run.explanation = Some(ledger.to_record());
    assert_eq!(needed(run.explanation.as_ref().unwrap()), 7);
    for events in [0, 500] {
        let event = Event::invalidating(1, Happening::CpuOnline { cpu: 3 });
        run.events = vec![event; events];
        let text = summary(&run, &Style::plain());
        let named = text
            .lines()
            .filter(|line| line.contains("12.5 %") && line.contains("IPI: function_"));
        assert!(named.count() >= 7, "{events}: {text}");
        assert!(text.lines().count() <= 40, "{text}");
    }
}

/// A line that ends within a command goes on in the next, also where it is pasted: `tune apply` without its
/// settings would change all that `check` finds bad.
#[test]
fn a_command_that_takes_several_lines_is_one_command() {
    let long = format!("/sys/fs/cgroup/docker-{}.scope/cpu.max=max", "f".repeat(64));
    let text =
        format!("a cause: move it: `sudo punctual tune apply affinity@1:2=0 {long} b=1`; or not");
    for width in [20, 40, 60, 76] {
        let lines = wrap_commands(&text, width);
        let pasted = lines.join("\n").replace(" \\\n", " ");
        let command = pasted.split('`').nth(1).unwrap();
        assert_eq!(command, text.split('`').nth(1).unwrap(), "{lines:#?}");
        let fits = |line: &&String| line.chars().count() <= width || line.contains(&long);
        assert!(lines.iter().all(|line| fits(&line)), "{lines:#?}");
    }
}

#[test]
fn a_fix_is_given_only_where_it_can_help() {
    let ordinary = |task: &str| Cause::Thread {
        task: task.to_owned(),
        policy: "SCHED_OTHER".to_owned(),
        priority: 0,
    };
    let mut run = report_fixtures::good();
    run.request.cpus = vec![0];
    run.system.processor.online = vec![0, 1];
    // `chrt -f -p 1` would raise an ordinary thread above ordinary probes.
    let text = fix(&ordinary("rustc"), &run).unwrap();
    assert!(!text.contains("chrt -f -p 1 "), "{text}");
    assert!(text.contains("or move rustc"), "{text}");
    // Our own thread ran here although a CPU was left for it: `-a 0` was given already.
    let own = Cause::LateInterrupt {
        task: "punctual".to_owned(),
    };
    let mut bill = bill_of(1, 1, &[(Stage::Switch, own.clone(), 5_000)]);
    bill.rows[0].by = vec![Culprit {
        tid: 7,
        own: true,
        ..Culprit::default()
    }];
    run.explanation.get_or_insert_default().bills = vec![bill];
    assert_eq!(fix(&own, &run), None);
    run.request.cpus = vec![0, 1];
    assert!(fix(&own, &run).unwrap().contains("as with -a 1"));
    // Nobody saw the host.
    run.system.virtualisation.hypervisor = Some("KVM".into());
    let text = fix(&Cause::Platform, &run).unwrap();
    assert!(!text.contains("the host had the processor"), "{text}");
}

#[test]
fn where_nothing_was_late_nothing_is_called_late() {
    let mut run = report_fixtures::explained();
    let explanation = run.explanation.as_mut().unwrap();
    explanation.above_ns = Some(1_000_000_000);
    (explanation.outliers, explanation.explained) = (0, 0);
    (explanation.unexplained, explanation.lost) = (0, 0);
    explanation.tail_ns = 0;
    explanation.ranking.iter_mut().for_each(|it| it.tail_ns = 0);
    let said = section(&run, &Style::plain(), Some(1)).join("\n");
    assert!(said.contains("no wake-up later than 1 s; "), "{said}");
    assert!(
        !said.contains("0 wake-ups") && !said.contains("in tail"),
        "{said}"
    );
    assert!(said.contains("Bill 1: latency "), "{said}");
    assert!(!said.contains(" late on CPU"), "{said}");
    // What cost most of the bills is shown all the same, as a share of them.
    let extent = punctual_report::explain::Extent {
        causes: 3,
        fixes: 1,
    };
    let brief = punctual_report::explain::brief(&run, &Style::plain(), extent).join("\n");
    assert!(brief.contains("     share      worst  cause"), "{brief}");
}

#[test]
fn a_watch_is_not_told_to_choose_its_probes_cpus() {
    let mut run = super::watched::program();
    let explanation = report_fixtures::explained().explanation;
    run.explanation = explanation;
    let blind = punctual_record::explanation::Ranked {
        cause: Cause::Blind,
        count: 1,
        total_ns: 1,
        tail_ns: 0,
        worst_ns: 1,
    };
    run.explanation.as_mut().unwrap().ranking.push(blind);
    run.own_cost.tracer = Some(punctual_record::TracerCost {
        cpu_ns: 1,
        events: 10,
        lost: 5,
        unread_ns: 1_200_000_000,
    });
    let section = |run: &Run| {
        let lines = section(run, &Style::plain(), None).join(" ");
        lines.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = section(&run);
    assert!(
        said.contains("5 of 10 events") && !said.contains("(-a)"),
        "{said}"
    );
    assert!(
        said.contains("once only after 1.2 s: wake-ups")
            && said.contains("thread `tracer` needs a CPU"),
        "{said}"
    );
    // Too many at once, though the tracer came in time; said also of a run without a blind bill.
    run.own_cost.tracer.as_mut().unwrap().unread_ns = 60_000_000;
    let mut whole = run.clone();
    whole.explanation.as_mut().unwrap().ranking.pop();
    for run in [&run, &whole] {
        let said = section(run);
        assert!(
            said.contains("5 of 10 events") && !said.contains("once only"),
            "{said}"
        );
    }
    // A window of too many events is a reason too.
    let mut middle = run.clone();
    middle.own_cost.tracer.as_mut().unwrap().lost = 0;
    let missing = &mut middle.explanation.as_mut().unwrap().missing;
    missing.push(NotSeen::Middle { wake_ups: 3 });
    let said = section(&middle);
    assert!(said.contains("the middle of 3 late wake-ups"), "{said}");
    assert!(!said.contains("BPF program"), "{said}");
    // Blind though every event was kept: the kernel made none.
    run.own_cost.tracer.as_mut().unwrap().lost = 0;
    let said = section(&run);
    assert!(
        said.contains("the kernel ran no BPF program meanwhile"),
        "{said}"
    );
}

#[test]
fn a_run_is_not_different_from_itself() {
    let run = report_fixtures::explained();
    let same = against(&run, &run);
    assert!(!same.is_empty());
    for difference in same {
        assert_eq!(difference.first_per_minute, difference.second_per_minute);
        assert_eq!(difference.change, punctual_report::explain::Change::Same);
    }
    assert!(against(&run, &report_fixtures::good()).is_empty());
    assert!(section(&report_fixtures::good(), &Style::plain(), None).is_empty());
}

/// A field of a protobuf message.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// What any reader of protobuf sees: the fields of a message, by number.
fn decode(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("the message goes on");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return value;
            }
        }
        unreachable!()
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn number(fields: &[(u64, Field)], wanted: u64) -> Option<u64> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Number(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

fn message(fields: &[(u64, Field)], wanted: u64) -> Option<Vec<(u64, Field)>> {
    bytes(fields, wanted).map(|bytes| decode(&bytes))
}

fn bytes(fields: &[(u64, Field)], wanted: u64) -> Option<Vec<u8>> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Bytes(value) if *field == wanted => Some(value.clone()),
        _ => None,
    })
}

/// Holds a trace against what Perfetto asks of one: tracks are described before they are
/// used, slices nest and end.
fn hold(trace: &[u8]) -> usize {
    let mut tracks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut slices = 0;
    for (index, (field, packet)) in decode(trace).into_iter().enumerate() {
        let Field::Bytes(packet) = packet else {
            panic!("not a packet");
        };
        assert_eq!(field, 1);
        let packet = decode(&packet);
        assert_eq!(number(&packet, 10), Some(1), "the sequence");
        if index == 0 {
            let snapshot = message(&packet, 6).expect("the clock comes first");
            assert_eq!(number(&snapshot, 2), Some(3), "CLOCK_MONOTONIC");
            assert_eq!(number(&packet, 13), Some(1));
        }
        if let Some(track) = message(&packet, 60) {
            let id = number(&track, 1).expect("a track has a number");
            assert!(bytes(&track, 2).is_some_and(|name| !name.is_empty()));
            if let Some(parent) = number(&track, 5) {
                assert!(tracks.contains_key(&parent));
            }
            assert!(tracks.insert(id, Vec::new()).is_none());
        }
        if let Some(event) = message(&packet, 11) {
            let at = number(&packet, 8).expect("an event has a time");
            assert_eq!(number(&packet, 58), Some(3));
            let track = number(&event, 11).expect("an event has a track");
            let open = tracks.get_mut(&track).expect("a track that was described");
            match number(&event, 9) {
                Some(1) => {
                    assert!(bytes(&event, 23).is_some());
                    open.push(at);
                    slices += 1;
                }
                Some(2) => assert!(open.pop().expect("it began") <= at),
                Some(3) => assert!(bytes(&event, 23).is_some()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(tracks.values().all(Vec::is_empty), "a slice does not end");
    slices
}

#[test]
fn a_trace_of_a_recorded_wake_up() {
    let window = super::data::window("preempt-off-0");
    let picture = punctual_trace::attribute::picture(&window);
    let latency = window.woken_ns - window.due_ns;
    let outlier = Outlier {
        due_ns: window.due_ns,
        latency_ns: latency,
        terms: Terms::default(),
    };
    let trace = perfetto::trace(&picture, outlier, &[]);
    assert_eq!(hold(&trace), picture.spans.len() + 1);
    assert!(holds(&trace, "preempt-off") && holds(&trace, "latency "));
    // A gap is no latency.
    let terms = Terms::for_run(&report_fixtures::gaps());
    let trace = perfetto::trace(&picture, Outlier { terms, ..outlier }, &[]);
    assert!(holds(&trace, "gap of ") && !holds(&trace, " late"));
}

fn holds(trace: &[u8], text: &str) -> bool {
    trace.windows(text.len()).any(|it| it == text.as_bytes())
}

/// A run whose marks were passed around an instant.
fn passed_at(at_ns: u64) -> Run {
    // Made once: a run of many samples takes a while.
    static PROGRAM: OnceLock<Run> = OnceLock::new();
    let mut run = PROGRAM.get_or_init(super::watched::program).clone();
    let marks = run.watch.iter_mut().flat_map(|watch| &mut watch.marks);
    let threads = marks.flat_map(|mark| &mut mark.threads);
    for worst in threads.flat_map(|thread| &mut thread.worst) {
        worst.at_ns = at_ns.saturating_add(worst.length_ns / 2);
    }
    run
}

#[test]
fn the_longest_of_marks_stand_beside_what_ran_meanwhile() {
    let window = super::data::window("preempt-off-0");
    let picture = punctual_trace::attribute::picture(&window);
    let bill = punctual_trace::attribute::bill(&window);
    let run = passed_at(bill.due_ns);
    let all = intervals(&run);
    // Two threads, two each.
    assert_eq!(all.len(), 4);
    let near = around(&all, &bill, &picture);
    assert_eq!(near.len(), 4);
    let trace = perfetto::trace(&picture, Outlier::of(&bill, Terms::for_run(&run)), &near);
    assert_eq!(hold(&trace), picture.spans.len() + 1 + 4);
    for text in [
        "marks of controller/4711",
        "controller 2.5 ms",
        "page faults",
    ] {
        assert!(holds(&trace, text), "{text}");
    }
    let mut drawn = bill.clone();
    drawn.picture = Some(picture.clone());
    let svg = outlier::draw(&run, &drawn, "a bill", Form::File, "x").expect("a picture");
    assert!(svg.contains("controller 2.5 ms"), "{svg}");
    // All of them, and which bill to open.
    let bills = [drawn.clone(), drawn.clone()];
    let trace = perfetto::marks_trace(&all, &bills, Terms::for_run(&run)).expect("a trace");
    assert_eq!(hold(&trace), 4 + 2);
    assert!(holds(&trace, "bill 2: "));
    assert!(perfetto::marks_trace(&[], &bills, Terms::for_run(&run)).is_none());
    // Elsewhere in time, or in a sum of runs, they are in no picture.
    let elsewhere = passed_at(bill.due_ns + 60_000_000_000);
    assert!(around(&intervals(&elsewhere), &bill, &picture).is_empty());
    let mut other = run.clone();
    other.start_ns = other.start_ns.map(|at| at + 1);
    other.started = "2026-11-21T09:30:01Z".to_owned();
    let sum = punctual_record::merge(&[run, other], true, Vec::new());
    assert!(intervals(&sum.expect("a sum")).is_empty());
}

fn pictures() -> impl Strategy<Value = Picture> {
    let time = prop_oneof![20 => -1_000i64..5_000, 1 => any::<i64>()];
    let lane = prop_oneof![
        Just(Lane::Interrupt),
        Just(Lane::Softirq),
        Just(Lane::Thread),
        Just(Lane::Probe)
    ];
    let span = (
        lane,
        0u32..4,
        time.clone(),
        time.clone(),
        "\\PC{0,12}",
        any::<bool>(),
    )
        .prop_map(|(lane, cpu, a, b, label, in_the_way)| Span {
            lane,
            cpu,
            from_ns: a.min(b),
            to_ns: a.max(b),
            label: SpanLabel::Earlier { text: label },
            in_the_way,
        });
    let mark = (time, 0u32..4, "\\PC{0,12}").prop_map(|(at_ns, cpu, text)| {
        let label = MarkLabel::Earlier { text };
        Mark { at_ns, cpu, label }
    });
    (
        proptest::collection::vec(span, 0..40),
        proptest::collection::vec(mark, 0..8),
    )
        .prop_map(|(spans, marks)| Picture {
            spans,
            marks,
            left_out: 0,
        })
}

proptest! {
    #[test]
    fn any_picture_is_drawn_and_traced(
        picture in pictures(),
        due_ns in any::<u64>(),
        latency_ns in prop_oneof![0u64..5_000, any::<u64>()],
    ) {
        let terms = Terms::default();
        let run = passed_at(1 << 62);
        let usual = Outlier { due_ns: 1 << 62, latency_ns: 5_000, terms };
        hold(&perfetto::trace(&picture, usual, &intervals(&run)));
        let run = passed_at(due_ns);
        let odd = Outlier { due_ns, latency_ns, terms };
        let _ = perfetto::trace(&picture, odd, &intervals(&run));
        let mut bill = bill_of(0, due_ns, &[]);
        bill.latency_ns = latency_ns;
        let trace = perfetto::marks_trace(&intervals(&run), &[bill.clone()], terms);
        hold(&trace.expect("a trace"));
        bill.picture = Some(picture);
        for form in [Form::Wide, Form::Narrow, Form::File] {
            if let Some(svg) = outlier::draw(&run, &bill, "a bill", form, "x") {
                prop_assert!(!svg.contains("NaN") && !svg.contains("\"inf"));
                prop_assert!(svg.len() < 200_000);
            }
        }
    }
}

/// A column of amounts sums to its last line as it is printed, whatever was rounded; in a virtual
/// machine nobody knows three decimals of a µs.
#[test]
fn printed_rows_sum_and_a_virtual_machine_has_tenths() {
    let printed = |run: &Run, number: usize| -> Vec<f64> {
        let lines = bill_section(run, number, &Style::plain());
        let amounts = lines.iter().filter_map(|line| {
            let (number, _) = line.split_once(" µs ")?;
            number.trim().replace(',', "").parse().ok()
        });
        amounts.collect()
    };
    for (hypervisor, decimals) in [(None, 3), (Some("KVM".into()), 1)] {
        let mut run = report_fixtures::explained();
        run.laboratory = None;
        run.system.virtualisation.hypervisor = hypervisor;
        for number in 1..=run.explanation.as_ref().map_or(0, |it| it.bills.len()) {
            let amounts = printed(&run, number);
            let (sum, rows) = amounts.split_last().expect("rows");
            let scale = 10_f64.powi(decimals);
            let whole = |value: f64| (value * scale).round() as u64;
            assert_eq!(rows.iter().copied().map(whole).sum::<u64>(), whole(*sum));
        }
        let text = bill_section(&run, 1, &Style::plain()).join("\n");
        let last = text
            .lines()
            .find(|line| line.contains("100.0 %"))
            .expect("a sum");
        let number = last.trim().split(' ').next().unwrap_or("");
        let after = number.split_once('.').map_or(0, |(_, after)| after.len());
        assert_eq!(after, decimals as usize, "{last}");
    }
}
