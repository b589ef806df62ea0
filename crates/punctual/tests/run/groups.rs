//! Bills name the control group that throttled a probe, and the advice
//! lifts the limit.

use crate::alone::alone;
use crate::common;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::common::groups::{Group, in_group};
use crate::common::needs::{self, Absent};
use crate::common::{Place, Running, cpus, need, skip};
use punctual_record::Run;
use punctual_record::explanation::{Bill, BillRow, Cause, Explanation, RowNote, Stage};
use punctual_rt::sched::{Policy, set_current};

/// A probe of ordinary priority in a group with a quota that another thread of the group uses up: the
/// group is in the bills, with as much time as the kernel counted and no more, and the advice names
/// a file that exists.
#[test]
fn bills_name_the_group_whose_quota_was_used_up() {
    let _alone = alone();
    // Beside others' threads, it would not use up its quota with its usual share.
    let files = [("cpu.cfs_quota_us", "20000"), ("cpu.shares", "262144")];
    need!(needs::root());
    need!(needs::program("taskset"));
    let Some(group) = Group::with("bills", &files) else {
        skip!(Absent::kernel("control groups with a quota"));
    };
    let cpu = cpus()[0].to_string();
    let place = Place::new();
    let mut burn = place.command("taskset");
    burn.args(["-c", &cpu, "sh", "-c", "while :; do :; done"]);
    common::groups::join(&mut burn, &group.0);
    let burning = Running::start(burn);
    let flags = [
        "measure",
        "-q",
        "-a",
        &cpu,
        "--policy",
        "other",
        "-i",
        "20000",
        "-D",
        "3",
        "--explain-above",
        "5ms",
        "-o",
        "run",
    ];
    let ended = in_group(&place, &group, &flags).end();
    burning.signal(libc::SIGKILL);
    drop(burning);
    assert_ne!(ended.code(), 1, "{ended:?}");
    let run = place.run_of();
    let explanation = run.explanation.as_ref().expect("it was traced");
    let directory = group.0.to_string_lossy().into_owned();
    let limit = explanation.limits.iter().find(|it| it.group == directory);
    let limit = limit.unwrap_or_else(|| panic!("{:?}", explanation.limits));
    assert_eq!((limit.runtime_us, limit.period_us), (20_000, 100_000));
    let counted = limit.throttled.expect("the kernel counts");
    assert!(counted.periods > 5, "{counted:?}");
    let its = explanation.ranking.iter().find(|ranked| {
        matches!(&ranked.cause, Cause::GroupThrottled { group, file }
            if *group == directory && file == "cpu.cfs_quota_us")
    });
    let its = its.unwrap_or_else(|| panic!("{:?}", explanation.ranking));
    // Two wake-ups of this period don't wait for the same stretch.
    assert!(
        its.count >= 2 && its.total_ns <= counted.ns,
        "{its:?} {counted:?}"
    );
    // It is not billed to the idle CPU, by bills which show no other cause. Before its timer's interrupt the
    // probe was not ready: a host that stops an idle CPU makes that late.
    for row in explanation.bills.iter().flat_map(|bill| &bill.rows) {
        let idle = match &row.cause {
            Cause::Throttled { task } => task.is_empty(),
            Cause::IdleExit { .. } => row.stage != Stage::Interrupt && row.ns > 1_000_000,
            _ => false,
        };
        assert!(!idle, "{row:?}");
    }
    let advice = punctual_report::explain::fix(&its.cause, &run).expect("an advice");
    let setting = format!("{directory}/cpu.cfs_quota_us=-1");
    let command = format!("`sudo punctual tune apply {setting}`");
    assert!(advice.contains(&command), "{advice}");
    // Executing the advice removes the limit.
    place
        .run(&["tune", "apply", &setting, "--state", "state"])
        .expect(0);
    let quota = fs::read_to_string(group.0.join("cpu.cfs_quota_us")).expect("it is there");
    assert_eq!(quota.trim(), "-1");
}

/// Whether all that happened in a late wake-up was seen: where events were left out, the end of a
/// throttling may be among them.
fn is_seen(bill: &Bill) -> bool {
    let blind = bill.rows.iter().filter(|row| row.cause == Cause::Blind);
    bill.lost == 0 && blind.map(|row| row.ns).sum::<u64>() <= bill.latency_ns / 10
}

/// A run of a probe whose real-time group has a tenth of each 100 ms, which another of the group's threads
/// uses up now and then. In a wake-up that waits for a whole second, other programs may do more on the CPU
/// than a window has room for.
fn run_in_used_up_group(group: &Group, cpu: usize) -> Run {
    let over = Arc::new(AtomicBool::new(false));
    let (ended, tasks) = (Arc::clone(&over), group.0.join("tasks"));
    let burner = spawn(move || {
        fs::write(tasks, "0").expect("the group takes a thread");
        punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
        set_current(Policy::Fifo(90)).expect("root may");
        while !ended.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(300) {}
            sleep(Duration::from_millis(300));
        }
    });
    let cpu = cpu.to_string();
    let place = Place::new();
    let flags = [
        "measure",
        "-q",
        "-a",
        &cpu,
        "-p",
        "80",
        "-i",
        "2000",
        "-D",
        "4",
        "--explain-above",
        "20ms",
        "-o",
        "run",
    ];
    let ended = in_group(&place, group, &flags).end();
    over.store(true, Ordering::Relaxed);
    burner.join().expect("it ends");
    assert_ne!(ended.code(), 1, "{ended:?}");
    place.run_of()
}

/// The group has the time in the bills, and who ran meanwhile, or was interrupted late, a tenth of it
/// at most. Where the end of the throttling was not seen, as when the host takes the CPU then, the row's note names
/// the group's limit: these have less.
#[test]
fn bills_name_the_group_whose_real_time_budget_was_used_up() {
    let _alone = alone();
    // The tracer is in the group as well, and must not wait for others' threads.
    let files = [
        ("cpu.rt_runtime_us", "10000"),
        ("cpu.rt_period_us", "100000"),
        ("cpu.shares", "262144"),
    ];
    need!(needs::root());
    let Some(group) = Group::with("budget", &files) else {
        skip!(Absent::kernel("real-time control groups"));
    };
    let directory = group.0.to_string_lossy().into_owned();
    let of_group = |cause: &Cause| {
        matches!(cause, Cause::GroupThrottled { group, file }
            if *group == directory && file == "cpu.rt_runtime_us")
    };
    let of_bystander = |cause: &Cause| {
        matches!(
            cause,
            Cause::Throttled { .. } | Cause::LateInterrupt { .. } | Cause::PreemptOff { .. }
        )
    };
    let run = run_in_used_up_group(&group, cpus()[0]);
    let explanation = run.explanation.as_ref().expect("it was traced");
    let limit = explanation.limits.iter().find(|it| it.group == directory);
    assert_eq!(limit.map(|it| it.runtime_us), Some(10_000));
    let ranked = explanation.ranking.iter();
    let ranked = ranked.filter(|ranked| of_group(&ranked.cause));
    let ranked: u64 = ranked.map(|ranked| ranked.tail_ns).sum();
    assert!(ranked > 100_000_000, "{:?}", explanation.ranking);
    assert!(explanation.outliers <= Explanation::BILLS as u64);
    let seen: Vec<&Bill> = explanation.bills.iter().filter(|it| is_seen(it)).collect();
    let in_doubt = |row: &BillRow| {
        let is_its = |note: &RowNote| matches!(note, RowNote::LimitNotSeen { group, .. } if *group == directory);
        row.notes.iter().any(is_its)
    };
    let ns = |is: &dyn Fn(&BillRow) -> bool| -> u64 {
        let rows = seen.iter().flat_map(|bill| &bill.rows);
        rows.filter(|row| is(row)).map(|row| row.ns).sum()
    };
    let its = ns(&|row| of_group(&row.cause));
    let doubtful = ns(&|row| of_bystander(&row.cause) && in_doubt(row));
    let bystanders = ns(&|row| of_bystander(&row.cause) && !in_doubt(row));
    eprintln!(
        "{its} {doubtful} {bystanders} ns in {} seen bills of {}",
        seen.len(),
        explanation.bills.len()
    );
    assert!(
        its > 100_000_000,
        "{its} of {ranked} in bills without losses"
    );
    assert!(its / 10 > bystanders, "{its} {bystanders} {seen:?}");
    assert!(its > doubtful, "{its} {doubtful} {seen:?}");
}
