//! Flags of every verb that judges.

use clap::Args;
use punctual_stats::requirement::Requirement;

use super::{REQUIRE, units};

/// What is required of latencies.
#[derive(Debug, Args)]
pub struct RequirementFlags {
    /// Require wake-ups within this deadline, in us or with a unit; later is a miss [default: 100us for qualify, else none]
    #[arg(long, value_name = "TIME", value_parser = units::latency, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub deadline: Option<u64>,
    /// Allow this probability of a miss per cycle; 0: no miss seen [default: 1e-4]
    #[arg(long, value_name = "P", value_parser = units::miss, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub miss: Option<f64>,
    /// Require that misses of the deadline come in at most so many episodes an hour, or a day: 2/h, 3/d; misses less than a second (or 10 deadlines) apart are one. Instead of --miss
    #[arg(long, value_name = "N/h", value_parser = units::episodes, allow_hyphen_values = true, conflicts_with = "miss", help_heading = REQUIRE)]
    pub episodes: Option<f64>,
    /// Require that no latency is above this, in us or with a unit [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = units::latency, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub max: Option<u64>,
    /// Require that a percentile is within a limit, in us or with a unit: 99.99=50us; may be repeated
    #[arg(long, value_name = "P=TIME", value_parser = units::percentile, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub percentile: Vec<Requirement>,
    /// Set the confidence that every bound holds, 0.5 to 0.999999
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = units::confidence, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub confidence: f64,
}
