//! The budgets of a set's chains.

use punctual_record::Run;
use punctual_record::taskset::TaskRun;

use super::parts::{Html, Td, td};
use crate::exec::{HEADS, budget_rows, budget_statements, budget_title, chain_budgets};

/// A table and its sentences for each chain that has a budget.
pub(super) fn budgets(html: &mut Html, run: &Run, tasks: &TaskRun) {
    for (chain, budget) in chain_budgets(run, tasks) {
        let each = budget_rows(&budget).into_iter();
        let cells: Vec<(&str, Vec<Td>)> = each
            .map(|row| ("", row.into_iter().map(td).collect()))
            .collect();
        let caption = format!(
            "{}. Times of each hop in µs; of limit: the longest time as a share of it; part: the \
             hop's part of the limit, with how often it is longer",
            budget_title(tasks, chain, &budget)
        );
        html.table("figures", &caption, &HEADS, &cells);
        for (title, text) in budget_statements(tasks, chain, &budget) {
            html.text("p", "note", &format!("{title}: {text}."));
        }
    }
}
