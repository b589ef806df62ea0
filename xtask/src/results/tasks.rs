//! Tables of task sets: a row for each task, a group of columns for each kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{grouped, word};

/// The tables, one for each load.
pub fn tables(columns: &[&str], rows: &[&str], of: &BTreeMap<(&str, &str), Vec<&Value>>) -> String {
    let mut text = String::from(
        "Of each kernel: best, p99 and worst response time, bound by the analysis, late and skipped \
         jobs.\n",
    );
    for row in rows {
        let cells = |column| of.get(&(*row, column)).map_or([].as_slice(), Vec::as_slice);
        let _ = write!(text, "\n**{row}**\n\n| task | deadline |");
        for column in columns {
            let _ = write!(text, " {column}: best | p99 | worst | bound | late |");
        }
        text += "\n|---|---|";
        text += &"---|".repeat(5 * columns.len());
        text += "\n";
        let first = columns.iter().find_map(|column| cells(*column).first());
        let tasks = first.and_then(|cell| cell["tasks"].as_array());
        for task in tasks.into_iter().flatten() {
            let name = word(&task["name"]);
            let _ = write!(text, "| {name} | {} |", shown(&task["deadline_ns"]));
            for column in columns {
                let own: Vec<&Value> = cells(*column)
                    .iter()
                    .filter_map(|cell| {
                        let mut tasks = cell["tasks"].as_array()?.iter();
                        tasks.find(|task| word(&task["name"]) == name)
                    })
                    .collect();
                text += &figures(&own);
            }
            text += "\n";
        }
    }
    text
}

/// Those of a task over all seeds.
fn figures(tasks: &[&Value]) -> String {
    let all = |of: fn(&Value) -> &Value| tasks.iter().filter_map(move |task| of(task).as_u64());
    let late = all(|task| &task["late"]).sum::<u64>()
        + all(|task| &task["figures"]["missed"]).sum::<u64>();
    let time = |ns: Option<u64>| ns.map_or("–".to_owned(), |ns| grouped(ns as f64));
    format!(
        " {} | {} | {} | {} | {} |",
        time(all(|task| &task["figures"]["min_ns"]).min()),
        time(all(|task| &task["figures"]["p99_ns"]).max()),
        time(all(|task| &task["figures"]["max_ns"]).max()),
        time(all(|task| &task["bound_ns"]).max()),
        grouped(late as f64)
    )
}

fn shown(ns: &Value) -> String {
    ns.as_f64().map_or_else(String::new, grouped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_load_has_a_table_with_a_row_for_each_task() {
        let task = |name: &str, max_ns: u64| {
            json!({"name": name, "deadline_ns": 4_000_000, "bound_ns": 2_000, "late": 1,
                   "figures": {"min_ns": 1_000, "p99_ns": 1_200, "max_ns": max_ns, "missed": 2}})
        };
        let cell = |max_ns| json!({"tasks": [task("a", max_ns), task("b", 7)]});
        let cells = [cell(1_500), cell(1_700), cell(9_000)];
        let of = [
            (("idle", "rt"), vec![&cells[0], &cells[1]]),
            (("idle", "standard"), vec![&cells[2]]),
        ];
        let text = tables(&["rt", "standard"], &["idle"], &of.into());
        let row = "| a | 4,000,000 | 1,000 | 1,200 | 1,700 | 2,000 | 6 | 1,000 | 1,200 | 9,000 | 2,000 | 3 |";
        assert!(text.contains("**idle**") && text.contains(row), "{text}");
        assert_eq!(
            text.lines().filter(|line| line.starts_with("| b")).count(),
            1
        );
    }
}
