//! What holds for every exchange, also for one whose instants are nonsense.

use proptest::prelude::*;
use punctual_network::bill::{Context, Held, Holder, Keeper, bill};
use punctual_network::exchange::{
    Exchange, PeerStages, Reply, SentStages, TcpChange, TcpState, Transmissions,
};
use punctual_record::path::bill::MessageRow;

/// Mostly plausible, sometimes anything.
fn instants() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..2_000_000_000,
        1 => any::<u64>(),
        1 => Just(0),
        1 => Just(u64::MAX),
    ]
}

fn transmissions() -> impl Strategy<Value = Transmissions> {
    (instants(), instants(), 0u32..4).prop_map(|(first_ns, last_ns, count)| Transmissions {
        first_ns,
        last_ns,
        count,
    })
}

fn states() -> impl Strategy<Value = TcpState> {
    (any::<u32>(), any::<u32>(), 0u32..100, 0u32..3_000).prop_map(
        |(rto_us, rtt_us, window, segment_bytes)| TcpState {
            rto_us,
            rtt_us,
            window,
            segment_bytes,
            ..TcpState::default()
        },
    )
}

fn changes() -> impl Strategy<Value = Option<TcpChange>> {
    let change = (
        0u32..3,
        proptest::option::of(0u16..3),
        prop_oneof![Just(0), any::<u64>()],
        prop_oneof![Just(0), any::<u64>()],
        states(),
    )
        .prop_map(
            |(retransmits, timeouts, rwnd_limited_us, sndbuf_limited_us, state)| TcpChange {
                retransmits,
                timeouts,
                rwnd_limited_us,
                sndbuf_limited_us,
                state,
                ..TcpChange::default()
            },
        );
    proptest::option::of(change)
}

fn sent() -> impl Strategy<Value = SentStages> {
    (
        instants(),
        instants(),
        any::<bool>(),
        transmissions(),
        transmissions(),
        proptest::option::of(instants()),
        proptest::option::of(instants()),
    )
        .prop_map(
            |(call_begin_ns, call_end_ns, blocked, scheduled, software, hardware_ns, ack)| {
                SentStages {
                    call_begin_ns,
                    call_end_ns,
                    blocked,
                    scheduled,
                    software,
                    hardware_ns,
                    acknowledged_ns: ack,
                }
            },
        )
}

fn replies() -> impl Strategy<Value = Reply> {
    (
        proptest::option::of(instants()),
        proptest::option::of(instants()),
        instants(),
    )
        .prop_map(|(rx_software_ns, rx_hardware_ns, woke_ns)| Reply {
            rx_software_ns,
            rx_hardware_ns,
            woke_ns,
        })
}

fn peers() -> impl Strategy<Value = PeerStages> {
    (
        proptest::option::of(instants()),
        instants(),
        instants(),
        transmissions(),
        transmissions(),
    )
        .prop_map(
            |(rx_software_ns, woke_ns, send_begin_ns, scheduled, software)| PeerStages {
                rx_software_ns,
                woke_ns,
                send_begin_ns,
                scheduled,
                software,
            },
        )
}

fn exchanges() -> impl Strategy<Value = Exchange> {
    (
        any::<u32>(),
        instants(),
        sent(),
        proptest::option::weighted(0.9, replies()),
        proptest::option::weighted(0.9, peers()),
        (changes(), changes()),
        prop_oneof![Just(0), any::<i64>()],
    )
        .prop_map(
            |(size, requested_ns, sent, reply, peer, (tcp, peer_tcp), clock_step_ns)| Exchange {
                sequence: 1,
                size,
                requested_ns,
                sent,
                reply,
                peer,
                tcp,
                peer_tcp,
                clock_step_ns,
                outstanding: 0,
            },
        )
}

fn holds() -> impl Strategy<Value = Held> {
    (instants(), any::<bool>()).prop_map(|(until_ns, queue)| Held {
        until_ns,
        by: match queue {
            true => Holder::Queue,
            false => Holder::Neighbour,
        },
    })
}

fn contexts() -> impl Strategy<Value = Context> {
    (
        any::<[bool; 5]>(),
        proptest::option::of(any::<bool>()),
        instants(),
        proptest::option::of(instants()),
        (
            proptest::option::of(states()),
            proptest::option::of(states()),
        ),
        proptest::option::of(instants()),
        (changes(), changes()),
        (0u32..3, proptest::option::of(holds())),
    )
        .prop_map(
            |(
                [tcp, nagle, paced, read_together, replies_together],
                slow_start_after_idle,
                interval_ns,
                way_ns,
                (before, peer_before),
                idle_ns,
                (earlier, earlier_reply),
                (outstanding, held),
            )| Context {
                tcp,
                nagle,
                paced,
                slow_start_after_idle,
                interval_ns,
                way_ns,
                before,
                idle_ns,
                peer_before,
                outstanding,
                earlier,
                earlier_reply,
                held,
                read_together,
                replies_together,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rows_sum_to_the_latency_and_come_in_order(exchange in exchanges(), context in contexts()) {
        let bill = bill(&exchange, &context);
        prop_assert_eq!(bill.is_some(), exchange.reply.is_some());
        if let Some(bill) = bill {
            let sum: u128 = bill.rows.iter().map(|row| u128::from(row.ns)).sum();
            prop_assert_eq!(sum, u128::from(exchange.latency_ns().unwrap()));
            prop_assert!(bill.rows.is_sorted_by_key(|row| row.stage));
            prop_assert!(bill.rows.iter().all(|row| row.ns > 0));
            prop_assert!(bill.rows.iter().all(|row| row.evidence.len() <= MessageRow::EVIDENCE));
        }
    }

    #[test]
    fn the_bills_of_any_exchanges_are_consistent(
        all in proptest::collection::vec(exchanges(), 1..40),
        settings in contexts(),
    ) {
        let mut keeper = Keeper::new(1_000, settings);
        for exchange in &all {
            keeper.take(exchange);
        }
        keeper.finish();
        prop_assert!(keeper.bills().is_consistent());
    }
}
