//! The table: a row for each figure, and what becomes of many rounds.

use serde_json::{Value, json};

/// Middle and quartiles of several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
    pub rounds: usize,
}

impl Spread {
    /// `None` without rounds.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (
                values[place.floor() as usize],
                values[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Self {
            low: at(0.25),
            middle: at(0.5),
            high: at(0.75),
            rounds: values.len(),
        })
    }

    /// One exact value.
    pub fn exactly(value: f64) -> Self {
        Self {
            low: value,
            middle: value,
            high: value,
            rounds: 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    Met,
    NotMet,
    /// There is no target.
    Shown,
    /// The reason.
    NotMeasured(String),
}

impl Standing {
    pub fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::NotMet }
    }
}

#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub ours: String,
    /// The peer's figure, with the peer's name.
    pub peer: String,
    /// Ours as a share of the peer's.
    pub ratio: Option<Spread>,
    pub target: String,
    pub standing: Standing,
    /// Not a matter of the machine's load: `--strict` insists on it.
    pub exact: bool,
}

impl Row {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ours: String::new(),
            peer: String::new(),
            ratio: None,
            target: String::new(),
            standing: Standing::Shown,
            exact: false,
        }
    }

    pub fn not_measured(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            standing: Standing::NotMeasured(reason.into()),
            ..Self::new(name)
        }
    }

    fn cells(&self) -> [String; 6] {
        let ratio = match self.ratio {
            None => String::new(),
            Some(spread) if spread.rounds == 1 => format!("{:.3}", spread.middle),
            Some(spread) => format!(
                "{:.3} [{:.3}, {:.3}]",
                spread.middle, spread.low, spread.high
            ),
        };
        let standing = match &self.standing {
            Standing::Met => "met".to_owned(),
            Standing::NotMet => "NOT MET".to_owned(),
            Standing::Shown => "-".to_owned(),
            Standing::NotMeasured(reason) => format!("not measured: {reason}"),
        };
        [
            self.name.clone(),
            self.ours.clone(),
            self.peer.clone(),
            ratio,
            self.target.clone(),
            standing,
        ]
    }
}

/// The rows in columns.
pub fn table(rows: &[Row]) -> String {
    let head = [
        "figure",
        "punctual",
        "peer",
        "ratio [quartiles]",
        "target",
        "",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    // The last column runs on.
    let widths: Vec<usize> = (0..5)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut text = String::new();
    for line in lines {
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(&line[5]);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The rows for a program.
pub fn json(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let (standing, reason) = match &row.standing {
            Standing::Met => ("met", None),
            Standing::NotMet => ("not-met", None),
            Standing::Shown => ("no-target", None),
            Standing::NotMeasured(reason) => ("not-measured", Some(reason)),
        };
        let ratio = row.ratio.map(|spread| {
            json!({
                "middle": spread.middle,
                "quartiles": [spread.low, spread.high],
                "rounds": spread.rounds,
            })
        });
        json!({
            "name": row.name,
            "ours": row.ours,
            "peer": row.peer,
            "ratio": ratio,
            "target": row.target,
            "standing": standing,
            "reason": reason,
            "exact": row.exact,
        })
    };
    format!("{:#}\n", Value::Array(rows.iter().map(row).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        let spread = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.low, spread.middle, spread.high), (2.0, 3.0, 4.0));
        let two = Spread::of(vec![1.0, 2.0]).unwrap();
        assert_eq!((two.low, two.middle, two.high), (1.25, 1.5, 1.75));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn columns_stand_below_each_other_and_a_reason_is_told() {
        let rows = [
            Row {
                ours: "1".to_owned(),
                ratio: Some(Spread::exactly(0.5)),
                standing: Standing::Met,
                ..Row::new("instructions")
            },
            Row::not_measured("rate", "cyclictest: not found"),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        let column = lines[0].find("ratio").unwrap();
        assert!(lines[1][column..].starts_with("0.500"), "{text}");
        assert!(lines[2].ends_with("not measured: cyclictest: not found"));
        let value: Value = serde_json::from_str(&json(&rows)).unwrap();
        assert_eq!(value[1]["reason"], "cyclictest: not found");
        assert_eq!(value[0]["ratio"]["middle"], 0.5);
    }
}
