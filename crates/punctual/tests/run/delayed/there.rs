//! What delays messages on the responder's machine: it says so at the end.

use punctual_record::path::bill::{Certainty, MessageBill, MessageSide};

use super::*;

/// Whether a later message came as a hog ended: what is read with it has its time stamp, by which the thread
/// did not wait.
fn is_doubtful(bill: &MessageBill, truth: &[(u64, u64)]) -> bool {
    truth.iter().any(|(_, end_ns)| {
        let after_ns = end_ns.saturating_sub(bill.requested_ns);
        let is_during = after_ns < bill.latency_ns;
        is_during && after_ns > EACH_NS && after_ns % EACH_NS < EACH_NS / 10
    })
}

#[test]
fn a_hog_on_the_responders_cpu_is_named_by_the_responder() {
    need!(explained_pair(&[]));
    let pair = namespaces!();
    let _alone = alone();
    let (responder, ours) = (cpus()[0], cpus()[1]);
    let flags = ["-a", &ours.to_string(), "--deadline", DEADLINE];
    let (run, by, _) = hogged_with(&pair, responder, &flags, &["--explain"]);
    assert_eq!(why_not(&run), None);
    let is_expected = |stage, cause: &Cause| match cause {
        Cause::NotScheduled { by: Some(by) } => stage == Stage::PeerWakeUp && is_hog(by),
        _ => false,
    };
    let mut known = bills(&run).clone();
    known.worst.retain(|bill| !is_doubtful(bill, &by.truth));
    require(&run, &judged(&known, &by, is_expected));
    // The responder names it for the others, too.
    let bills = bills(&run);
    let ranked = bills.ranking.iter().find(|it| {
        let is_peer = it.side == MessageSide::Responder;
        is_peer && matches!(&it.cause, Cause::NotScheduled { by: Some(by) } if by.task == NAME)
    });
    let named = ranked.map_or(0, |it| it.count);
    let asleep = bills.ranking.iter().find(|it| {
        it.side == MessageSide::Responder && it.cause == Cause::NotScheduled { by: None }
    });
    let unnamed = asleep.map_or(0, |it| it.main);
    // While this machine stalls, messages wait for the responder as well, and no thread has its CPU.
    let unnamed_most = named / 10 + by.stalls.messages(EACH_NS);
    assert!(
        named >= 10 && unnamed <= unnamed_most,
        "{named}, {unnamed} of {unnamed_most}"
    );
    assert!(bills.peer_traced >= named, "{bills:?}");
}

/// A run while the hog takes the CPU to which the thread of NAPI of the responder's device is bound, and
/// when it did; absent if that can't be on this machine. The sender records no events: both sides are one
/// machine here, and it would see that thread itself.
fn with_napi(priority: u32, deadline: &str) -> Result<(Run, Injected), Absent> {
    explained_pair(FOR_NAPI)?;
    let pair = Namespaces::pair()?;
    let _alone = alone();
    let (ours, other) = (cpus()[0].to_string(), cpus()[1]);
    threaded_napi(&pair, Side::Far, other, priority)
        .map_err(|why| Absent::refused("threaded NAPI", why))?;
    let flags = ["-a", &ours, "--no-explain", "--deadline", deadline];
    let (run, by, said) = hogged_with(&pair, other, &flags, &["--explain"]);
    assert!(!said.contains("are not explained"), "{said}");
    Ok((run, by))
}

#[test]
fn a_hog_above_the_responders_thread_of_napi_is_named_by_the_responder() {
    let (run, by) = need!(with_napi(BELOW, DEADLINE));
    let is_expected =
        |stage, cause: &Cause| stage == Stage::PeerReceive && is_napi_below_hog(cause);
    let bills = bills(&run);
    let judged = judged(bills, &by, is_expected);
    eprintln!("{} with the responder's events", bills.peer_traced);
    require_named(bills, &judged);
    let received = bills.worst.iter().flat_map(|bill| &bill.rows);
    let received: Vec<_> = received
        .filter(|row| row.stage == Stage::PeerReceive)
        .collect();
    // It may have come at any moment of the wait.
    assert!(
        received.iter().all(|it| it.certainty == Certainty::Likely),
        "{received:?}"
    );
    // The responder says so of the others, too: it took the CPU for five periods each time.
    let (named, _) = named_there(bills);
    assert!(named >= hogs_of_run(&by), "{named}: {bills:?}");
}

/// Messages of which the hog is the main cause, because packets of the responder waited; and what that
/// took of all messages, in ns.
fn named_there(bills: &MessageBills) -> (u64, u64) {
    let of_hog = bills.ranking.iter().filter(|it| {
        let by = match &it.cause {
            Cause::NapiThread { by, .. } | Cause::Softirq { by } => by.as_ref(),
            _ => None,
        };
        it.side == MessageSide::Responder && by.is_some_and(|by| by.task == NAME)
    });
    of_hog.fold((0, 0), |sum, it| (sum.0 + it.main, sum.1 + it.total_ns))
}

/// The same hog on the same CPU keeps no packet from a thread of NAPI above it.
#[test]
fn a_hog_below_the_responders_thread_of_napi_is_not_named() {
    // Every message is late, and has a bill.
    let (run, by) = need!(with_napi(PRIORITY + 5, "1us"));
    let bills = bills(&run);
    let hog_ns: u64 = by
        .truth
        .iter()
        .map(|(from_ns, to_ns)| to_ns - from_ns)
        .sum();
    let (named, ns) = named_there(bills);
    eprintln!("{named} named, {ns} of {hog_ns} ns; {} late", bills.late);
    assert!(by.truth.len() >= 10 && bills.late >= 400, "{bills:?}");
    // Until the CPU has switched to the thread, which takes long if the host stops it meanwhile.
    assert!(ns * 20 <= hog_ns, "{ns} of {hog_ns}: {bills:?}");
    assert!(bills.is_consistent());
}
