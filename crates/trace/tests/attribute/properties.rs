//! Properties of every window.

use punctual_record::{Document, Run};
use std::path::Path;

use proptest::prelude::*;
use punctual_record::explanation::{GroupLimit, GroupThrottling, RT_RUNTIME, Wait};
use punctual_trace::attribute::event::{Event, Interrupted, Kind, Stall, Task, Vector, Window};
use punctual_trace::attribute::waits::chain;
use punctual_trace::attribute::{Cause, Ledger, Stage, account, bill, picture};

fn tasks() -> impl Strategy<Value = Task> {
    (0u32..6, -2i32..141, 0u32..8).prop_map(|(tid, priority, policy)| Task {
        tid,
        name: format!("task{tid}"),
        priority,
        policy,
    })
}

fn vectors() -> impl Strategy<Value = Vector> {
    prop_oneof![
        Just(Vector::LocalTimer),
        Just(Vector::Reschedule),
        any::<u32>().prop_map(Vector::Other),
    ]
}

fn kinds() -> impl Strategy<Value = Kind> {
    let interrupted =
        proptest::option::of(
            (0u64..9, any::<bool>()).prop_map(|(address, user)| Interrupted {
                address,
                user,
                preempt_count: 0,
            }),
        );
    prop_oneof![
        (vectors(), interrupted).prop_map(|(vector, interrupted)| Kind::VectorEntry {
            vector,
            interrupted
        }),
        vectors().prop_map(|vector| Kind::VectorExit { vector }),
        (0u32..3).prop_map(|irq| Kind::HandlerEntry {
            irq,
            name: "eth0".to_owned()
        }),
        (0u32..3).prop_map(|irq| Kind::HandlerExit { irq }),
        (0u32..12).prop_map(|number| Kind::SoftirqEntry { number }),
        (0u32..12).prop_map(|number| Kind::SoftirqExit { number }),
        (0u64..3, 0u64..2_000, any::<bool>()).prop_map(|(timer, expires_ns, of_probe)| {
            Kind::TimerExpire {
                timer,
                function: timer,
                expires_ns,
                of_probe,
            }
        }),
        (0u64..3).prop_map(|timer| Kind::TimerDone { timer }),
        (0u32..6, proptest::option::of(tasks())).prop_map(|(tid, by)| Kind::Waking { tid, by }),
        (
            tasks(),
            prop_oneof![Just(0u64), any::<u64>()],
            any::<bool>(),
            tasks()
        )
            .prop_map(|(from, from_state, preempted, to)| Kind::Switch {
                from,
                from_state,
                preempted,
                to
            }),
        (0u64..3_000).prop_map(|duration_ns| Kind::Nmi { duration_ns }),
        (0u32..6, 0u32..4, proptest::option::of(0u32..4)).prop_map(|(tid, to_cpu, from_cpu)| {
            Kind::Migrate {
                tid,
                to_cpu,
                from_cpu,
            }
        }),
        proptest::option::of(0u32..4).prop_map(|state| Kind::Idle { state }),
        (0u64..3).prop_map(|function| Kind::CallEntry {
            function,
            request: function
        }),
        (0u64..3).prop_map(|function| Kind::CallExit { function }),
        (0u64..3, proptest::option::of(tasks())).prop_map(|(lock, holder)| Kind::LockWait {
            lock,
            flags: 0,
            holder
        }),
        (0u64..3).prop_map(|lock| Kind::LockDone { lock }),
        Just(Kind::Fault { address: 1 }),
        tasks().prop_map(|task| Kind::Rename { task }),
        (
            0u32..6,
            proptest::option::of(19i32..23),
            proptest::option::of(tasks())
        )
            .prop_map(|(tid, signal, by)| Kind::Stop { tid, signal, by }),
        (0u32..6, prop_oneof![0u64..3_000, any::<u64>()]).prop_map(|(tid, cost_ns)| {
            Kind::Stack {
                tid,
                cost_ns,
                frames: vec![1, 2, 3],
            }
        }),
        prop_oneof![0u64..5_000, any::<u64>()].prop_map(|total_ns| Kind::Stolen { total_ns }),
        (0u64..5).prop_map(|total| Kind::SmiCount { total }),
        (0u64..5).prop_map(|function| Kind::WorkStart { function }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let at = prop_oneof![20 => 0u64..3_000, 1 => any::<u64>()];
    let event = (at, 0u32..3, kinds()).prop_map(|(at_ns, cpu, kind)| Event { at_ns, cpu, kind });
    proptest::collection::vec(event, 0..80)
}

fn limits() -> impl Strategy<Value = Vec<GroupLimit>> {
    let counted = prop_oneof![
        Just(None),
        (0u64..3_000).prop_map(Some),
        Just(Some(u64::MAX))
    ];
    let limit = (any::<bool>(), counted).prop_map(|(real_time, ns)| GroupLimit {
        group: "/group".to_owned(),
        file: if real_time { RT_RUNTIME } else { "cpu.max" }.to_owned(),
        runtime_us: 1,
        period_us: 2,
        room_us: None,
        throttled: ns.map(|ns| GroupThrottling { periods: 0, ns }),
    });
    proptest::collection::vec(limit, 0..3)
}

fn stalls() -> impl Strategy<Value = Vec<Stall>> {
    let at = || prop_oneof![20 => 0u64..3_000_000, 1 => any::<u64>()];
    let stall = (0u32..3, at(), at(), any::<bool>());
    let stall = stall.prop_map(|(cpu, from_ns, to_ns, in_kernel)| Stall {
        cpu,
        from_ns,
        to_ns,
        in_kernel,
    });
    proptest::collection::vec(stall, 0..3)
}

fn windows() -> impl Strategy<Value = Window> {
    let instants = prop_oneof![
        20 => (0u64..1_000, 500u64..1_500, 500u64..3_000),
        1 => (any::<u64>(), any::<u64>(), any::<u64>()),
    ];
    (
        instants,
        events(),
        tasks(),
        0u64..2,
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(None), (0u64..600).prop_map(Some)],
        limits(),
        stalls(),
    )
        .prop_map(
            |(
                (waiting_ns, due_ns, woken_ns),
                events,
                probe,
                lost,
                preempt_rt,
                gap,
                left,
                limits,
                stalls,
            )| Window {
                limits,
                stalls,
                cpu: 1,
                probe,
                waiting_ns,
                due_ns,
                woken_ns,
                lost,
                cut: false,
                preempt_rt,
                gap,
                job: gap && due_ns % 2 == 0,
                left,
                events,
                symbols: [
                    (1, "one+0x1".to_owned()),
                    (2, "+".to_owned()),
                    (3, "sched_cfs_period_timer".to_owned()),
                    (4, "sched_rt_period_timer".to_owned()),
                ]
                .into(),
                origins: [].into(),
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_nanosecond_is_in_exactly_one_row(window in windows()) {
        let bill = bill(&window);
        prop_assert_eq!(bill.latency_ns, window.woken_ns.saturating_sub(window.due_ns));
        prop_assert_eq!(bill.stages.total_ns(), bill.latency_ns);
        for stage in Stage::ALL {
            let rows: Vec<_> = bill.rows.iter().filter(|row| row.stage == stage).collect();
            let sum: u128 = rows.iter().map(|row| u128::from(row.ns)).sum();
            prop_assert_eq!(sum, u128::from(bill.stages.get(stage).unwrap_or(0)));
            prop_assert!(rows.windows(2).all(|pair| pair[0].ns >= pair[1].ns));
        }
        prop_assert!(bill.rows.iter().all(|row| row.ns > 0));
    }

    #[test]
    fn every_nanosecond_of_a_wait_is_in_exactly_one_row(
        window in windows(),
        known_from_ns in prop_oneof![Just(0u64), 0u64..3_000, any::<u64>()],
    ) {
        let chain = chain(&window, known_from_ns);
        // The switch itself may have been recorded a little earlier or later.
        prop_assert!(chain.from_ns >= window.due_ns.saturating_sub(100_000));
        prop_assert!(chain.to_ns <= window.woken_ns.max(window.due_ns));
        let sum: u128 = chain.rows.iter().map(|row| u128::from(row.ns)).sum();
        prop_assert_eq!(sum, u128::from(chain.to_ns - chain.from_ns));
        prop_assert!(chain.rows.iter().all(|row| row.ns > 0));
        prop_assert!(chain.rows.len() <= Wait::ROWS);
    }

    #[test]
    fn the_order_of_the_events_does_not_matter(
        (window, shuffled) in windows().prop_flat_map(|window| {
            let events = Just(window.events.clone()).prop_shuffle();
            (Just(window), events)
        })
    ) {
        let expected = bill(&window);
        let shuffled = Window { events: shuffled, ..window };
        prop_assert_eq!(bill(&shuffled), expected);
    }

    #[test]
    fn the_wake_up_itself_never_takes_long(mut window in windows()) {
        for at_ns in [&mut window.waiting_ns, &mut window.due_ns, &mut window.woken_ns] {
            *at_ns = at_ns.saturating_mul(64);
        }
        for event in &mut window.events {
            event.at_ns = event.at_ns.saturating_mul(64);
        }
        for share in account(&window) {
            let length_ns = share.to_ns - share.from_ns;
            prop_assert!(share.cause != Cause::WakePath || length_ns <= 50_000, "{share:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_record_accepts_any_bill(windows in proptest::collection::vec(windows(), 1..6)) {
        let mut ledger = Ledger::new(Some(1_000));
        for window in &windows {
            let bill = bill(window);
            ledger.add_stages(&bill.stages);
            ledger.add(&bill);
            prop_assert!(picture(window).left_out == 0);
        }
        let explanation = ledger.to_record();
        let path = Path::new("run.json");
        let mut run = Run::parse(path, include_bytes!("../../../record/tests/data/run-2.json")).unwrap();
        run.explanation = Some(explanation.clone());
        let text = serde_json::to_string(&run).unwrap();
        let read = Run::parse(path, text.as_bytes()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let read = read.explanation.unwrap();
        prop_assert_eq!(read, explanation);
    }
}
