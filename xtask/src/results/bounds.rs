//! The page of bounds: how late a wake-up was, and how late it could have been.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{grouped, word};

/// A row for each kernel of each load: the highest of all seeds, and the window that makes the bound so
/// high.
pub fn table(columns: &[&str], rows: &[&str], of: &BTreeMap<(&str, &str), Vec<&Value>>) -> String {
    let mut text = "| load | kernel | seeds | max | bound | ratio | longest window | from | to |\n"
        .to_owned()
        + &"|---".repeat(9)
        + "|\n";
    for row in rows {
        for column in columns {
            let Some(cells) = of.get(&(*row, *column)) else {
                continue;
            };
            let _ = writeln!(text, "| {row} | {column} | {} |", of_cells(cells));
        }
    }
    text
}

/// The sum of a bound's parts.
fn total(bound: &Value) -> Option<f64> {
    let parts = ["window_ns", "timer_ns", "served_ns"].map(|part| bound[part].as_f64());
    parts.into_iter().sum()
}

fn of_cells(cells: &[&Value]) -> String {
    let seeds = cells.len();
    let max = cells.iter().map(|cell| cell["figures"]["max_ns"].as_f64());
    let max: Option<Vec<f64>> = max.collect();
    let totals: Option<Vec<f64>> = cells.iter().map(|cell| total(&cell["bound"])).collect();
    let (Some(max), Some(totals)) = (max, totals) else {
        return format!("{seeds} | | no bound | | | |");
    };
    let highest = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    let at = totals.iter().position(|it| *it == highest(&totals));
    let bound = at
        .and_then(|at| cells.get(at))
        .map_or(&Value::Null, |cell| &cell["bound"]);
    let window = &bound["windows"][0];
    let then = match window["then"].as_str() {
        Some(then) => format!(", then `{then}`"),
        None => String::new(),
    };
    format!(
        "{seeds} | {} | {} | {:.2} | {} | `{}` | `{}`{then}",
        grouped(highest(&max)),
        grouped(highest(&totals)),
        highest(&totals) / highest(&max).max(1.0),
        grouped(window["length_ns"].as_f64().unwrap_or(0.0)),
        word(&window["opened_by"]),
        word(&window["closed_by"]),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kernel_has_the_highest_of_its_seeds_and_the_window_of_the_highest_bound() {
        let cell = |max_ns: u64, window_ns: u64, then: Option<&str>| {
            json!({
                "figures": {"max_ns": max_ns},
                "bound": {
                    "window_ns": window_ns, "timer_ns": 1_000, "served_ns": 2_000,
                    "windows": [{
                        "length_ns": window_ns, "opened_by": "f", "closed_by": "g", "then": then,
                    }],
                },
            })
        };
        let (low, high) = (cell(5_000, 3_000, None), cell(4_000, 5_000, Some("t")));
        let without = json!({"figures": {"max_ns": 1}, "bound": null});
        let mut of = BTreeMap::new();
        of.insert(("exit", "rt"), vec![&low, &high]);
        of.insert(("exit", "standard"), vec![&low, &without]);
        let text = table(&["rt", "standard"], &["exit"], &of);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| exit | rt | 2 | 5,000 | 8,000 | 1.60 | 5,000 | `f` | `g`, then `t` |",
                "| exit | standard | 2 | | no bound | | | | |",
            ]
        );
    }
}
