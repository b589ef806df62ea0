//! The page of costs: instructions per operation.

use std::fmt::Write as _;

use serde_json::Value;

use super::{grouped, word};

/// A row for each operation: its instructions in each column, and the ratio to the first one.
pub fn table(cells: &[Value]) -> String {
    let mut text = "| operation |".to_owned();
    for cell in cells {
        let _ = write!(text, " {} |", word(&cell["kernel"]));
    }
    text += "\n|---|";
    text += &"---|".repeat(cells.len());
    text += "\n";
    let operations = |cell: &Value| cell["cost"]["operations"].as_array().cloned();
    let first = cells.first().and_then(operations).unwrap_or_default();
    for operation in &first {
        let name = word(&operation["operation"]);
        let _ = write!(text, "| {name} |");
        for (at, cell) in cells.iter().enumerate() {
            let all = operations(cell).unwrap_or_default();
            let here = all
                .iter()
                .find(|it| it["operation"] == operation["operation"]);
            let shown = match (here.and_then(each), each(operation)) {
                (None, _) => "no figure".to_owned(),
                (Some(here), Some(base)) if at > 0 => {
                    format!("{}, {:.3}", instructions(here), here / base.max(1.0))
                }
                (Some(here), _) => instructions(here),
            };
            let _ = write!(text, " {shown} |");
        }
        text += "\n";
    }
    text
}

/// Of the median batch, per operation.
fn each(operation: &Value) -> Option<f64> {
    let batches = operation["batches"].as_array()?.iter().map(Value::as_u64);
    let mut batches: Vec<u64> = batches.collect::<Option<_>>()?;
    batches.sort_unstable();
    let median = batches.get(batches.len().checked_sub(1)? / 2)?;
    Some(*median as f64 / operation["count"].as_f64()?.max(1.0))
}

fn instructions(each: f64) -> String {
    match each < 1_000.0 {
        true => format!("{each:.1}"),
        false => grouped(each),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_operation_has_its_instructions_and_their_ratio_to_the_first_column() {
        let cell = |kernel: &str, batches: [u64; 3]| {
            let operation = json!({"operation": "pipe", "count": 10, "batches": batches});
            json!({"kernel": kernel, "cost": {"operations": [operation]}})
        };
        let cells = [
            cell("standard", [90_000, 5_000, 100_000]),
            cell("rt", [137_500, 123_750, 123_740]),
            json!({"kernel": "cloud", "cost": null}),
        ];
        assert_eq!(
            table(&cells).lines().collect::<Vec<_>>(),
            [
                "| operation | standard | rt | cloud |",
                "|---|---|---|---|",
                "| pipe | 9,000 | 12,375, 1.375 | no figure |",
            ]
        );
        assert_eq!(instructions(645.44), "645.4");
    }
}
