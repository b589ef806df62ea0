//! What the queries of a dataset answer: a type for the rows of each, with the columns' names.

use serde::Deserialize;

/// What the dataset has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Overview {
    /// Runs with figures.
    pub runs: u64,
    /// Machines that they were on.
    pub machines: u64,
    /// Kernels that they were on.
    pub kernels: u64,
    /// When the first began, RFC 3339; none without runs.
    pub first: Option<String>,
    /// When the last began.
    pub last: Option<String>,
    /// Wake-ups.
    pub samples: u64,
    /// Periods without a wake-up.
    pub skipped: u64,
    /// The worst wake-up.
    pub maximum_ns: Option<u64>,
    /// How long was measured, in s.
    pub measured_s: f64,
    /// Runs with the verdict PASS.
    pub passed: u64,
    /// FAIL.
    pub failed: u64,
    /// INCONCLUSIVE.
    pub inconclusive: u64,
    /// Runs that are INVALID, and not among `runs`.
    pub invalid: u64,
}

/// What makes runs comparable, but for the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// Vendor and model.
    pub hardware: String,
    /// The BIOS's version; empty if unknown.
    #[serde(default)]
    pub bios: String,
    /// The load.
    pub load: String,
    /// What woke the threads up.
    pub source: String,
}

/// A row of `percentiles`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PercentilesRow {
    /// The kernel.
    pub kernel: String,
    /// Where and how it was measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// Runs.
    pub runs: u64,
    /// Machines.
    pub machines: u64,
    /// Wake-ups.
    pub samples: u64,
    /// Half of them are not later.
    pub p50_ns: Option<u64>,
    /// 99 %.
    pub p99_ns: Option<u64>,
    /// 99.9 %.
    pub p999_ns: Option<u64>,
    /// 99.99 %.
    pub p9999_ns: Option<u64>,
    /// The worst.
    pub maximum_ns: Option<u64>,
}

/// A row of `exceedance`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ExceedanceRow {
    /// The kernel.
    pub kernel: String,
    /// Where and how it was measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The limit.
    pub limit_ns: u64,
    /// Runs.
    pub runs: u64,
    /// Machines.
    pub machines: u64,
    /// Periods.
    pub cycles: u64,
    /// Missed limits.
    pub misses: u64,
    /// At most this share is missed, with 95 %.
    pub upper: f64,
}

/// A row of `outliers`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct OutlierRow {
    /// The machine.
    pub machine: String,
    /// Its kernel.
    pub kernel: String,
    /// What it is and did.
    #[serde(flatten)]
    pub setting: Setting,
    /// The limit.
    pub limit_ns: u64,
    /// Its runs.
    pub runs: u64,
    /// Which share it missed.
    pub share: f64,
    /// At least that share, with the confidence of the table.
    pub lower: f64,
    /// Which share its peers missed.
    pub peers_share: f64,
    /// At most that share.
    pub peers_upper: f64,
}

/// A row of `changes`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChangeRow {
    /// Where and how it was measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The limit.
    pub limit_ns: u64,
    /// The kernel before.
    pub before: String,
    /// The kernel after.
    pub kernel: String,
    /// Which share was missed before.
    pub before_share: f64,
    /// Which share was missed after.
    pub share: f64,
    /// `worse`, `better` or `not shown`.
    pub change: String,
    /// The worst wake-up before.
    pub before_maximum_ns: Option<u64>,
    /// The worst wake-up after.
    pub maximum_ns: Option<u64>,
}

/// A row of `causes`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CauseRow {
    /// The kind of cause.
    pub kind: String,
    /// Its name.
    pub cause: String,
    /// Machines where it is in a bill.
    pub machines: u64,
    /// Runs.
    pub runs: u64,
    /// Bills.
    pub bills: u64,
    /// Its part of the time of all bills.
    pub share: f64,
    /// The longest.
    pub worst_ns: u64,
}

/// A row of `worst`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WorstRow {
    /// The machine.
    pub machine: String,
    /// When it began.
    pub started: String,
    /// The kernel.
    pub kernel: String,
    /// The load.
    pub load: String,
    /// The verdict.
    pub verdict: Option<String>,
    /// The worst wake-up.
    pub maximum_ns: u64,
    /// Wake-ups.
    pub samples: u64,
    /// Where its record was.
    pub record: String,
}

/// A machine among those that are shown.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MachineRow {
    /// Its name.
    pub machine: String,
    /// Its runs.
    pub runs: u64,
    /// Those with the verdict FAIL.
    pub failed: u64,
    /// Its worst wake-up.
    pub maximum_ns: Option<u64>,
}

/// A machine on a day.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DayRow {
    /// The machine.
    pub machine: String,
    /// The day in UTC, `2026-11-27`.
    pub day: String,
    /// Its runs on that day.
    pub runs: u64,
    /// Those with the verdict FAIL.
    pub failed: u64,
    /// The worst wake-up on that day.
    pub maximum_ns: Option<u64>,
}

/// A cause on a machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BillRow {
    /// The machine.
    pub machine: String,
    /// Its name.
    pub cause: String,
    /// Its part of the time of all bills of the machine.
    pub share: f64,
    /// The longest.
    pub worst_ns: u64,
}

/// A step of the histogram of a kind of runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RidgeRow {
    /// The kernel.
    pub kernel: String,
    /// Where and how it was measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The step's lower end.
    pub low_ns: u64,
    /// The step's upper end.
    pub high_ns: u64,
    /// Wake-ups in it.
    pub n: u64,
}

/// All that is shown of a dataset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// What it has.
    pub overview: Overview,
    /// Percentiles by kind of runs.
    pub percentiles: Vec<PercentilesRow>,
    /// How often limits are missed.
    pub exceedance: Vec<ExceedanceRow>,
    /// Machines that are worse than their peers.
    pub outliers: Vec<OutlierRow>,
    /// What changed between kernels.
    pub changes: Vec<ChangeRow>,
    /// Who stole the time.
    pub causes: Vec<CauseRow>,
    /// The worst wake-ups.
    pub worst: Vec<WorstRow>,
    /// The machines that are shown day by day, the worst first.
    pub machines: Vec<MachineRow>,
    /// Those machines day by day.
    pub days: Vec<DayRow>,
    /// Who stole the time on those machines.
    pub bills: Vec<BillRow>,
    /// Histograms.
    pub ridges: Vec<RidgeRow>,
}
