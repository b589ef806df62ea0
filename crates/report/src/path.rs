//! The path to another machine in words: over what, to whom, what became of the messages.

pub mod bill;

use punctual_record::Run;
use punctual_record::path::{ClockState, Lateness, PathRun};

use super::statements::{Fact, fact};
use super::{facts, words};

/// What a reader must know of the path, beside the figures; nothing for other runs.
#[must_use]
pub fn of_run(run: &Run) -> Vec<Fact> {
    let Some(path) = &run.path else {
        return Vec::new();
    };
    let mut all = vec![
        fact("Path", route(path)),
        fact("Messages", messages(path)),
        fact("Responder", responder(path)),
        fact("Clocks", clocks(path)),
    ];
    if let Some(lateness) = &path.send_lateness {
        all.insert(2, fact("Sender", sender(path, lateness)));
    }
    all.extend(path.bills.iter().flat_map(bill::facts));
    all
}

/// How late the thread was that sends.
fn sender(path: &PathRun, lateness: &Lateness) -> String {
    let spread = spread(lateness);
    let Some(launch) = &path.launch else {
        return format!("after its instant a message was sent {spread}");
    };
    let by = match launch.by_card {
        true => "the card sends it then",
        false => "sends it then",
    };
    let discipline = words::clean(&launch.discipline);
    let interface = words::clean(&launch.interface);
    let missed = match launch.counts.missed {
        0 => String::new(),
        count => format!(
            "; {} dropped because its launch time had passed",
            words::plural(count, "message", "messages")
        ),
    };
    format!(
        "launch times: passed to the kernel {} before its instant, {discipline} on {interface} ({by}); \
         the thread was late by {spread}{missed}",
        words::duration(launch.lead_ns)
    )
}

/// Over what, and to which machine.
fn route(path: &PathRun) -> String {
    let peer = &path.peer;
    let sizes: Vec<String> = path.sizes.iter().map(u32::to_string).collect();
    let burst = match path.burst {
        0 | 1 => String::new(),
        burst => format!(", {burst} at a time"),
    };
    format!(
        "{} to {} ({}), messages and replies of {} bytes{burst}; there Linux {}, punctual {}",
        path.transport.name(),
        words::clean(&peer.hostname),
        words::clean(&peer.address),
        sizes.join(", "),
        words::clean(&peer.kernel),
        words::clean(&peer.version),
    )
}

/// What became of the messages.
fn messages(path: &PathRun) -> String {
    let counts = &path.counts;
    let mut text = format!(
        "{} sent, {} replies",
        words::count(counts.sent),
        words::count(counts.replies)
    );
    let timeout = words::duration(path.timeout_ns);
    for (number, what) in [
        (
            counts.skipped,
            "skipped (the sender late, or without room)".to_owned(),
        ),
        (counts.lost, format!("lost (no reply within {timeout})")),
        (counts.after_timeout, "of these answered later".to_owned()),
        (
            counts.refused,
            "of these refused by the kernel here".to_owned(),
        ),
        (
            counts.dropped_here,
            "answered, and dropped on this machine (the receiver was late, and its socket's buffer full)"
                .to_owned(),
        ),
        (counts.blocked, "waited for room in the socket".to_owned()),
        (counts.duplicates, "duplicates".to_owned()),
        (counts.reordered, "out of order".to_owned()),
        (counts.foreign, "packets that are no reply".to_owned()),
    ] {
        if number > 0 {
            text += &format!(", {} {what}", words::count(number));
        }
    }
    if counts.are_swallowed() {
        text += "; none came through, though the connection of control does: does the path drop packets \
                 of this size (its MTU) or of this port (a filter)?";
    }
    text
}

/// The responder's thread, and how late it was itself.
fn responder(path: &PathRun) -> String {
    let report = path.responder.as_ref();
    let conditions = report.map_or(&path.peer.conditions, |report| &report.conditions);
    let mut parts = vec![match &conditions.scheduling {
        Some(scheduling) => facts::scheduling(scheduling),
        None => "policy not read back".to_owned(),
    }];
    if let Some(cpu) = conditions.cpu {
        parts.push(format!("CPU {cpu}"));
    }
    parts.push(
        match conditions.locked_memory {
            true => "memory locked",
            false => "memory not locked",
        }
        .to_owned(),
    );
    match report {
        None => parts.push("it has not reported".to_owned()),
        Some(report) => {
            if let Some(wake_up) = &report.wake_up {
                parts.push(format!("woken {} after a message came", spread(wake_up)));
            }
            if report.preemptions > 0 {
                let number = words::count(report.preemptions);
                parts.push(format!("{number} involuntary context switches"));
            }
        }
    }
    parts.join(", ")
}

/// What the clocks allow to say.
fn clocks(path: &PathRun) -> String {
    if let Some(one_way) = &path.one_way {
        return format!(
            "one way, driver to driver: there {}, back {}; may be wrong by {}",
            spread(&one_way.there),
            spread(&one_way.back),
            words::duration(one_way.error_ns)
        );
    }
    format!(
        "round trips only: here {}, there {}",
        clock(&path.clock),
        clock(&path.peer.clock)
    )
}

fn clock(state: &ClockState) -> String {
    match (&state.by, state.synchronised) {
        (Some(by), true) => format!(
            "{} within {}",
            words::clean(by),
            words::duration(state.max_error_ns)
        ),
        (Some(by), false) => format!("{} has not synchronised it", words::clean(by)),
        (None, _) => "nothing disciplines it".to_owned(),
    }
}

fn spread(of: &Lateness) -> String {
    format!(
        "{} (median), {} (99 %), at most {}",
        words::duration(of.p50_ns),
        words::duration(of.p99_ns),
        words::duration(of.max_ns)
    )
}
