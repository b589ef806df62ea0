//! Runs over a path that are made up, with bills of every cause.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::path::bill::{
    Certainty, MessageBill, MessageBills, MessageCause as Cause, MessageEvidence as Evidence,
    MessageRow, MessageSide as Side, MessageStage as Stage, RankedMessageCause, Runner,
};
use punctual_record::path::*;
use punctual_record::{Run, RunSource, Scheduling, analyse_record};

use crate::support::run;

const STAGES: [Stage; 13] = [
    Stage::Start,
    Stage::Send,
    Stage::Queue,
    Stage::Resend,
    Stage::Way,
    Stage::Receive,
    Stage::PeerReceive,
    Stage::PeerWakeUp,
    Stage::PeerWork,
    Stage::PeerSend,
    Stage::PeerQueue,
    Stage::PeerResend,
    Stage::WakeUp,
];

fn runner(task: &str, policy: &str, priority: u32) -> Runner {
    Runner {
        task: task.to_owned(),
        policy: policy.to_owned(),
        priority,
        tid: 17,
    }
}

fn causes() -> Vec<Cause> {
    let by = || Some(runner("hog", "SCHED_FIFO", 90));
    let napi = || runner("napi/eth0-7", "SCHED_OTHER", 0);
    vec![
        Cause::Usual,
        Cause::NotScheduled { by: None },
        Cause::NotScheduled { by: by() },
        Cause::Work,
        Cause::SendBuffer,
        Cause::ReceiveWindow,
        Cause::Nagle,
        Cause::DelayedAck,
        Cause::CongestionWindow,
        Cause::IdleRestart,
        Cause::Neighbour,
        Cause::Pacing,
        Cause::Queue,
        Cause::Timeout,
        Cause::LossProbe,
        Cause::FastRetransmit,
        Cause::Retransmission,
        Cause::Softirq { by: None },
        Cause::Softirq {
            by: Some(runner("softirq NET_RX", "", 0)),
        },
        Cause::NapiThread {
            thread: napi(),
            by: None,
        },
        Cause::NapiThread {
            thread: napi(),
            by: by(),
        },
        Cause::Backlog,
        Cause::Way,
        Cause::Other,
        Cause::Unexplained,
    ]
}

fn evidence() -> Vec<Evidence> {
    vec![
        Evidence::Retransmits { count: 2 },
        Evidence::Timeouts { count: 1 },
        Evidence::TimeoutsNotCounted,
        Evidence::RetransmissionTimeout { us: 204_000 },
        Evidence::Transmissions { count: 2 },
        Evidence::DroppedInQueue,
        Evidence::WindowLimited { us: 4_000 },
        Evidence::BufferLimited { us: 8_000 },
        Evidence::Blocked,
        Evidence::AfterCall { ns: 5_000 },
        Evidence::InCall { ns: 70_000 },
        Evidence::Outstanding { count: 1 },
        Evidence::AcknowledgedAfter { ns: 41_000_000 },
        Evidence::IdleBefore { ns: 180_000_000 },
        Evidence::Segments {
            count: 28,
            window: 10,
        },
        Evidence::EarlierData,
        Evidence::ReadTogether,
        Evidence::UsualWay { ns: 90_000 },
        Evidence::ClockStep { ns: -1_000_000 },
        Evidence::Contradiction { ns: 30_000 },
        Evidence::HardwareStamps,
        Evidence::Events,
        Evidence::PeerEvents,
    ]
}

/// Bills with every cause, stage, certainty and evidence, whose sums hold.
pub fn bills() -> MessageBills {
    let mut shown = evidence().into_iter();
    let sure = [Certainty::Certain, Certainty::Likely, Certainty::Possible];
    let rows: Vec<MessageRow> = causes()
        .into_iter()
        .enumerate()
        .map(|(index, cause)| MessageRow {
            stage: STAGES[index % STAGES.len()],
            cause,
            ns: 1_000_000 + index as u64,
            certainty: sure[index % sure.len()],
            evidence: shown.by_ref().take(2).collect(),
        })
        .collect();
    let latency_ns = rows.iter().map(|row| row.ns).sum();
    let sides = [Side::Sender, Side::Path, Side::Responder];
    let ranking = rows
        .iter()
        .enumerate()
        .map(|(index, row)| RankedMessageCause {
            side: sides[index % sides.len()],
            cause: row.cause.general(),
            count: 1,
            main: u64::from(index + 1 == rows.len()),
            total_ns: row.ns,
            worst_ns: row.ns,
        });
    MessageBills {
        above_ns: 1_000_000,
        late: 1,
        explained: 1,
        late_ns: latency_ns,
        ranking: ranking.rev().collect(),
        worst: vec![MessageBill {
            sequence: 39,
            requested_ns: 5_000_000_000,
            size: 256,
            latency_ns,
            rows,
        }],
        traced: 1,
        peer_traced: 1,
    }
}

fn lateness(count: u64) -> Lateness {
    Lateness {
        count,
        p50_ns: 12_000,
        p99_ns: 90_000,
        p999_ns: 200_000,
        max_ns: 310_000,
    }
}

fn clock(by: Option<&str>) -> ClockState {
    ClockState {
        synchronised: by.is_some(),
        max_error_ns: 400_000,
        estimated_error_ns: 20_000,
        by: by.map(str::to_owned),
    }
}

fn conditions() -> PeerConditions {
    PeerConditions {
        requested: Some(Scheduling::Fifo { priority: 80 }),
        scheduling: Some(Scheduling::Other),
        priority_refused: Some(1),
        cpu: Some(1),
        locked_memory: false,
        memory_refused: Some(12),
        cpu_dma_latency_us: Some(0),
        rx_stamps: true,
        tx_stamps: true,
    }
}

/// A run over a path, with all that such a run may hold.
pub fn measured(transport: Transport) -> Run {
    let mut run = run(1);
    run.request.source = RunSource::Path {
        over: transport,
        to: "10.0.0.2".to_owned(),
    };
    let conditions = conditions();
    run.path = Some(PathRun {
        transport,
        peer: Peer {
            address: "10.0.0.2:7001".to_owned(),
            hostname: "far".to_owned(),
            version: "0.1.0".to_owned(),
            kernel: "6.18.0".to_owned(),
            conditions: conditions.clone(),
            clock: clock(Some("ptp4l")),
        },
        sizes: vec![256, 1_400],
        burst: 2,
        timeout_ns: 1_000_000_000,
        counts: PathCounts {
            sent: 1_000,
            replies: 990,
            skipped: 2,
            blocked: 3,
            lost: 10,
            dropped_here: 2,
            after_timeout: 4,
            refused: 1,
            duplicates: 1,
            reordered: 1,
            foreign: 1,
        },
        launch: Some(LaunchTimes {
            lead_ns: 200_000,
            interface: "eth0".to_owned(),
            discipline: "fq".to_owned(),
            by_card: false,
            counts: LaunchCounts {
                seen: 900,
                early: 1,
                earliest_ns: 30_000,
                missed: 1,
            },
        }),
        stamps: Stamps {
            rx_software: true,
            tx_software: true,
            hardware: false,
        },
        clock: clock(Some("chronyd")),
        send_lateness: Some(lateness(1_000)),
        responder: Some(ResponderReport {
            received: 995,
            replied: 994,
            blocked: 1,
            foreign: 0,
            wake_up: Some(lateness(994)),
            turnaround: lateness(994),
            conditions,
            faults: 0,
            preemptions: 3,
        }),
        one_way: Some(OneWay {
            there: lateness(990),
            back: lateness(990),
            error_ns: 800_000,
        }),
        bills: Some(bills()),
    });
    let analysis = analyse_record(&run).unwrap();
    run.verdict = Some(analysis.verdict.clone());
    run.analysis = Some(analysis);
    run
}
