//! What is said in place of a run that would be INVALID whatever it measured.

use super::facts;
use punctual_record::{Demand, Fix};

/// The lines: what is requested and not in force, what fixes it, and what to do without a fix.
#[must_use]
pub fn refusal(demands: &[Demand]) -> Vec<String> {
    let mut lines =
        vec!["INVALID: nothing was measured: what is requested is not in force".to_owned()];
    for demand in demands {
        lines.push(format!(
            "{}: requested {}, found {}",
            demand.name(),
            facts::requested(demand),
            facts::found(demand)
        ));
    }
    let mut fixes: Vec<&Fix> = Vec::new();
    for fix in demands.iter().filter_map(|demand| demand.fix.as_ref()) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    let fixes = fixes.into_iter().map(facts::fix);
    lines.extend(fixes.map(|fix| format!("fix: {fix}")));
    lines.push(
        "--best-effort measures without what is not in force, and the verdict says so".to_owned(),
    );
    lines
}
