//! Bills for people: what to do.

use punctual_record::explanation::{Cause, Culprit, Keeper, NotSeen, OrdinaryTime, Stage};
use punctual_record::{Event, Happening, Ledger, Run};
use punctual_report::explain::{against, bill_section, fix, name, needed, section};
use punctual_report::style::{Style, wrap_commands};
use punctual_report::terminal::summary;

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
fn nothing_is_moved_that_the_kernel_places_or_where_there_is_one_cpu() {
    let fifo = |task: &str| Cause::Thread {
        task: task.to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
    };
    let mut run = report_fixtures::good();
    let text = fix(&fifo("irq/36-nvme0q1"), &run).expect("an advice");
    assert!(
        text.starts_with("the kernel itself places the queues"),
        "{text}"
    );
    assert!(!text.contains("smp_affinity"), "{text}");
    run.request.cpus = vec![1];
    run.system.processor.online = vec![1];
    let irq = Cause::Interrupt {
        irq: 36,
        name: "virtio0".to_owned(),
    };
    let preempt_off = Cause::PreemptOff {
        task: "insmod".to_owned(),
        work: None,
    };
    for cause in [
        irq,
        preempt_off,
        fifo("irq/36-eth0"),
        fifo("irq/36-nvme0q1"),
    ] {
        let text = fix(&cause, &run).expect("an advice");
        assert!(text.starts_with("this machine has one CPU"), "{text}");
    }
    let text = fix(&fifo("hog"), &run).expect("an advice");
    assert!(!text.contains("move"), "{text}");
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
