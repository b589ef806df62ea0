//! Adds up bills and stages over a run, and runs over a merge.

use std::collections::BTreeMap;

use punctual_stats::histogram::{Histogram, HistogramRecord, SparseHistogram};

use super::explanation::{
    Bill, Cause, Explanation, GroupLimit, NotSeen, OrdinaryTime, Ranked, Stage, StageHistogram,
    StageTimes, add_waits,
};

/// The account of a run, kept while it goes. Its memory is bounded whatever comes.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// All but the stages, the ranking and the bills.
    totals: Explanation,
    stages: [Histogram; 6],
    ranking: BTreeMap<Cause, Ranked>,
    /// The worst first.
    bills: Vec<Bill>,
}

impl Ledger {
    /// An empty account. Wake-ups later than `above_ns` are outliers; without it none is,
    /// and the worst alone are kept.
    #[must_use]
    pub fn new(above_ns: Option<u64>) -> Self {
        Self {
            totals: Explanation {
                above_ns,
                ..Explanation::default()
            },
            ..Self::default()
        }
    }

    /// Counts the stages of one wake-up, any wake-up: those with a bill too.
    pub fn add_stages(&mut self, times: &StageTimes) {
        for (histogram, ns) in self.stages.iter_mut().zip(times.ns) {
            if let Some(ns) = ns {
                histogram.record(ns);
            }
        }
    }

    /// Whether a bill of this latency would be kept among the worst.
    #[must_use]
    pub fn would_keep(&self, latency_ns: u64) -> bool {
        self.bills.len() < Explanation::BILLS || latency_ns > self.least_kept_ns()
    }

    /// A bill must be of a longer latency than this to be kept among the worst; 0 while there
    /// is room.
    #[must_use]
    pub fn least_kept_ns(&self) -> u64 {
        let full = self.bills.len() >= Explanation::BILLS;
        let least = self.bills.last().filter(|_| full);
        least.map_or(0, |least| least.latency_ns)
    }

    /// Counts an outlier whose events were lost.
    pub fn add_lost(&mut self) {
        self.totals.outliers = self.totals.outliers.saturating_add(1);
        self.totals.lost = self.totals.lost.saturating_add(1);
    }

    /// States what could not be seen; the same once, with the sum of its counts.
    pub fn add_missing(&mut self, what: NotSeen) {
        const MOST: usize = 32;
        let missing = &mut self.totals.missing;
        let is_known = missing.iter_mut().any(|known| known.absorb(&what));
        if !is_known && missing.len() < MOST {
            missing.push(what);
        }
    }

    /// States the limits of control groups, each with what was counted so far.
    pub fn set_limits(&mut self, limits: &[GroupLimit]) {
        let known = &mut self.totals.limits;
        for limit in limits {
            let same = |it: &GroupLimit| it.group == limit.group && it.file == limit.file;
            match known.iter().position(same) {
                Some(index) => known[index].clone_from(limit),
                None if known.len() < Explanation::LIMITS => known.push(limit.clone()),
                None => {}
            }
        }
    }

    /// States what keeps time for ordinary threads.
    pub fn set_ordinary_time(&mut self, kept: Vec<OrdinaryTime>) {
        self.totals.ordinary_time = kept;
    }

    /// Counts a bill, and keeps it while it is among the worst.
    pub fn add(&mut self, bill: &Bill) {
        let outlier = self
            .totals
            .above_ns
            .is_some_and(|above| bill.latency_ns > above);
        let parts = bill
            .causes()
            .into_iter()
            .map(|(cause, ns)| (cause.general(), ns));
        let mut general: BTreeMap<Cause, u64> = BTreeMap::new();
        for (cause, ns) in parts {
            let sum = general.entry(cause).or_default();
            *sum = sum.saturating_add(ns);
        }
        let entries = general.into_iter().map(|(cause, ns)| Ranked {
            cause,
            count: 1,
            total_ns: ns,
            tail_ns: if outlier { ns } else { 0 },
            worst_ns: ns,
        });
        if !self.rank(entries.collect()) {
            self.add_missing(NotSeen::TooMuchTime);
            return;
        }
        let totals = &mut self.totals;
        totals.examined = totals.examined.saturating_add(1);
        if outlier {
            totals.outliers = totals.outliers.saturating_add(1);
            let counter = if bill.is_explained() {
                &mut totals.explained
            } else {
                &mut totals.unexplained
            };
            *counter = counter.saturating_add(1);
        }
        self.keep(bill);
    }

    /// Adds what another run found. Its bills compete with ours; where the limits differ
    /// the higher stands, and that is said. `stages` are the histograms of its
    /// stages, decoded; `before` is how many runs are in the sum.
    pub fn add_record(&mut self, other: &Explanation, stages: &[SparseHistogram], before: u64) {
        if !self.rank(other.ranking.clone()) {
            self.add_missing(NotSeen::TooMuchTime);
            return;
        }
        let totals = &mut self.totals;
        if totals.above_ns != other.above_ns {
            totals.above_ns = totals.above_ns.max(other.above_ns);
            self.add_missing(NotSeen::DifferentLimits);
        }
        let totals = &mut self.totals;
        for (sum, term) in [
            (&mut totals.examined, other.examined),
            (&mut totals.explained, other.explained),
            (&mut totals.unexplained, other.unexplained),
            (&mut totals.lost, other.lost),
        ] {
            *sum = sum.saturating_add(term);
        }
        totals.outliers = totals
            .explained
            .saturating_add(totals.unexplained)
            .saturating_add(totals.lost);
        for (entry, times) in other.stages.iter().zip(stages) {
            self.stages[entry.stage as usize].merge_sparse(times);
        }
        self.set_limits(&other.limits);
        if self.totals.ordinary_time.is_empty() {
            self.set_ordinary_time(other.ordinary_time.clone());
        }
        for what in &other.missing {
            self.add_missing(what.clone());
        }
        for bill in &other.bills {
            self.keep(bill);
        }
        if !add_waits(&mut self.totals.waits, &other.waits, before) {
            self.add_missing(NotSeen::MergedWaits);
        }
    }

    /// All of the entries or, where their sum would not fit, none.
    fn rank(&mut self, entries: Vec<Ranked>) -> bool {
        let sum = |part: fn(&Ranked) -> u64, start: u64| {
            entries
                .iter()
                .try_fold(start, |sum, entry| sum.checked_add(part(entry)))
        };
        let Some((examined_ns, tail_ns)) = sum(|e| e.total_ns, self.totals.examined_ns)
            .zip(sum(|e| e.tail_ns, self.totals.tail_ns))
        else {
            return false;
        };
        self.totals.examined_ns = examined_ns;
        self.totals.tail_ns = tail_ns;
        for mut entry in entries {
            // One place is left for all that there is no room for.
            let full = self.ranking.len() + 1 >= Explanation::CAUSES;
            if full && !self.ranking.contains_key(&entry.cause) {
                entry.cause = Cause::Other;
            }
            let sum = self
                .ranking
                .entry(entry.cause.clone())
                .or_insert_with(|| Ranked {
                    cause: entry.cause,
                    count: 0,
                    total_ns: 0,
                    tail_ns: 0,
                    worst_ns: 0,
                });
            sum.count = sum.count.saturating_add(entry.count);
            // Bounded by the sums above.
            sum.total_ns += entry.total_ns;
            sum.tail_ns += entry.tail_ns;
            sum.worst_ns = sum.worst_ns.max(entry.worst_ns);
        }
        true
    }

    fn keep(&mut self, bill: &Bill) {
        if !self.would_keep(bill.latency_ns) {
            return;
        }
        let at = self
            .bills
            .partition_point(|kept| kept.latency_ns >= bill.latency_ns);
        self.bills.insert(at, bill.clone());
        self.bills.truncate(Explanation::BILLS);
    }

    /// What stands in the record.
    #[must_use]
    pub fn to_record(&self) -> Explanation {
        let mut record = self.totals.clone();
        let seen = Stage::ALL
            .into_iter()
            .zip(&self.stages)
            .filter(|(_, times)| !times.is_empty());
        record.stages = seen
            .map(|(stage, times)| StageHistogram {
                stage,
                times: HistogramRecord::from(times),
            })
            .collect();
        record.ranking = self.ranking.values().cloned().collect();
        for ranked in &mut record.ranking {
            // Several causes of one bill may stand under one name here.
            ranked.count = ranked.count.min(record.examined);
        }
        record
            .ranking
            .sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.cause.cmp(&b.cause)));
        record.bills.clone_from(&self.bills);
        let waits = &mut record.waits;
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.worked_ns()));
        waits.truncate(Explanation::WAITS);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BillRow;
    use crate::bounds::Extent;
    use crate::explanation::check;

    fn bill(latency_ns: u64, parts: &[(Cause, u64)]) -> Bill {
        let rows = parts.iter().map(|(cause, ns)| BillRow {
            stage: Stage::User,
            cause: cause.clone(),
            ns: *ns,
            stack: Vec::new(),
            by: Vec::new(),
            notes: Vec::new(),
        });
        let mut stages = StageTimes::default();
        stages.ns[5] = Some(latency_ns);
        Bill {
            cpu: 1,
            due_ns: 7,
            latency_ns,
            lost: 0,
            stages,
            rows: rows.collect(),
            picture: None,
        }
    }

    fn irq(irq: u32) -> Cause {
        Cause::Interrupt {
            irq,
            name: "virtio0".to_owned(),
        }
    }

    #[test]
    fn totals_tails_and_worst_cases() {
        let mut ledger = Ledger::new(Some(100));
        ledger.add(&bill(100, &[(irq(36), 60), (Cause::WakePath, 40)]));
        ledger.add(&bill(150, &[(irq(36), 130), (Cause::Blind, 20)]));
        ledger.add(&bill(200, &[(irq(36), 190), (Cause::Unexplained, 10)]));
        ledger.add_lost();
        let record = ledger.to_record();
        assert_eq!((record.examined, record.outliers), (3, 3));
        assert_eq!(
            (record.explained, record.unexplained, record.lost),
            (1, 1, 1)
        );
        assert_eq!((record.examined_ns, record.tail_ns), (450, 350));
        assert_eq!(
            record.ranking[0],
            Ranked {
                cause: irq(36),
                count: 3,
                total_ns: 380,
                tail_ns: 320,
                worst_ns: 190
            }
        );
        let latencies: Vec<_> = record.bills.iter().map(|b| b.latency_ns).collect();
        assert_eq!(latencies, [200, 150, 100]);
        assert!(check(&record, &Extent::default()).is_ok());
    }

    #[test]
    fn the_worst_bills_stay_and_all_are_counted() {
        let mut ledger = Ledger::new(None);
        let most = Explanation::BILLS as u64;
        for latency in 1..=3 * most {
            ledger.add(&bill(latency, &[(Cause::Platform, latency)]));
            ledger.add_stages(&bill(latency, &[]).stages);
        }
        let record = ledger.to_record();
        assert_eq!((record.examined, record.outliers), (3 * most, 0));
        assert_eq!(record.bills.len() as u64, most);
        assert_eq!(record.bills.last().unwrap().latency_ns, 2 * most + 1);
        assert!(!ledger.would_keep(2 * most + 1) && ledger.would_keep(2 * most + 2));
        assert_eq!(record.stages[0].times.count, 3 * most);
        assert!(check(&record, &Extent::default()).is_ok());
    }

    #[test]
    fn workers_are_one_cause_and_a_flood_of_causes_is_bounded() {
        let mut ledger = Ledger::new(None);
        let worker = |n: u32| Cause::PreemptOff {
            task: format!("kworker/{n}:1"),
            work: None,
        };
        for n in 0..10 {
            ledger.add(&bill(30, &[(worker(n), 10), (worker(n + 1), 20)]));
        }
        assert_eq!(ledger.to_record().ranking.len(), 1);
        assert_eq!(ledger.to_record().ranking[0].worst_ns, 30);
        for n in 0..3 * Explanation::CAUSES as u32 {
            ledger.add(&bill(5, &[(irq(n), 5)]));
        }
        let record = ledger.to_record();
        assert_eq!(record.ranking.len(), Explanation::CAUSES);
        assert!(record.ranking.iter().any(|r| r.cause == Cause::Other));
        assert!(check(&record, &Extent::default()).is_ok());
    }

    #[test]
    fn records_add_up_to_what_one_run_would_hold() {
        let bills: Vec<_> = (1..100u64)
            .map(|n| {
                bill(
                    n * 10,
                    &[(irq(n as u32 % 3), n * 6), (Cause::WakePath, n * 4)],
                )
            })
            .collect();
        let mut whole = Ledger::new(Some(300));
        let mut merged = Ledger::new(Some(300));
        for part in bills.chunks(17) {
            let mut ledger = Ledger::new(Some(300));
            for bill in part {
                whole.add(bill);
                whole.add_stages(&bill.stages);
                ledger.add(bill);
                ledger.add_stages(&bill.stages);
            }
            let record = ledger.to_record();
            let stages = record.stages.iter().map(|entry| &entry.times);
            let stages: Result<Vec<_>, _> = stages.map(SparseHistogram::try_from).collect();
            merged.add_record(&record, &stages.unwrap(), 0);
        }
        assert_eq!(merged.to_record(), whole.to_record());
    }

    #[test]
    fn time_without_end_is_refused_and_said() {
        let mut ledger = Ledger::new(Some(1));
        ledger.add(&bill(u64::MAX, &[(Cause::Platform, u64::MAX)]));
        ledger.add(&bill(u64::MAX, &[(Cause::Nmi, u64::MAX)]));
        let record = ledger.to_record();
        assert_eq!(record.examined, 1);
        assert_eq!(record.missing, [NotSeen::TooMuchTime]);
        assert!(check(&record, &Extent::default()).is_ok());
    }

    #[test]
    fn what_was_not_seen_is_stated_once_with_the_sum_of_its_counts() {
        let mut ledger = Ledger::new(None);
        for _ in 0..3 {
            ledger.add_missing(NotSeen::Forgotten { wake_ups: 1 });
            ledger.add_missing(NotSeen::NotQueued { count: 5 });
            ledger.add_missing(NotSeen::TooMuchTime);
        }
        let other = Explanation {
            missing: vec![
                NotSeen::NotQueued { count: u64::MAX },
                NotSeen::Forgotten { wake_ups: 4 },
            ],
            ..Explanation::default()
        };
        ledger.add_record(&other, &[], 1);
        let expected = [
            NotSeen::Forgotten { wake_ups: 7 },
            NotSeen::NotQueued { count: u64::MAX },
            NotSeen::TooMuchTime,
        ];
        assert_eq!(ledger.to_record().missing, expected);
    }
}
