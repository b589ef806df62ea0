//! What is said in place of a run that would be INVALID whatever it measured.

use punctual_record::Demand;

/// The lines: what is requested and not in force, what fixes it, and what to do without a fix.
#[must_use]
pub fn refusal(demands: &[Demand]) -> Vec<String> {
    let mut lines =
        vec!["INVALID: nothing was measured: what is requested is not in force".to_owned()];
    for demand in demands {
        lines.push(format!(
            "{}: requested {}, found {}",
            demand.name, demand.asked, demand.found
        ));
    }
    let mut fixes: Vec<&str> = Vec::new();
    for fix in demands.iter().filter_map(|demand| demand.mend.as_deref()) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    lines.extend(fixes.into_iter().map(|fix| format!("fix: {fix}")));
    lines.push(
        "--best-effort measures without what is not in force, and the verdict says so".to_owned(),
    );
    lines
}
