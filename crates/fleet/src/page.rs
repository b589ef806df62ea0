//! What the page of a dataset shows beside the queries that come with the program. DuckDB alone
//! executes these.

/// What the dataset has: one row.
pub const OVERVIEW: &str = include_str!("sql/page/overview.sql");
/// The machines with the most failed runs, then those with the worst wake-ups.
pub const MACHINES: &str = include_str!("sql/page/machines.sql");
/// Histograms of the kinds of runs with most samples.
pub const RIDGES: &str = include_str!("sql/page/ridges.sql");

/// These machines day by day.
#[must_use]
pub fn days(machines: &[&str]) -> String {
    of(include_str!("sql/page/days.sql"), machines)
}

/// These machines, in this order.
#[must_use]
pub fn named(machines: &[&str]) -> String {
    of(include_str!("sql/page/named.sql"), machines)
}

/// Who stole the time on these machines.
#[must_use]
pub fn bills(machines: &[&str]) -> String {
    of(include_str!("sql/page/bills.sql"), machines)
}

/// A query on machines. Their names may be anything, so that they stand there as digits.
fn of(query: &str, machines: &[&str]) -> String {
    let names: Vec<String> = machines.iter().map(|name| quoted(name)).collect();
    // Without any the list would be no SQL.
    let list = match names.is_empty() {
        true => "null".to_owned(),
        false => names.join(", "),
    };
    query.replace("MACHINES", &list)
}

fn quoted(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02X}")).collect();
    format!("'{digits}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_machines_are_digits() {
        let text = days(&["n1", "o'\0é"]);
        assert!(
            text.contains("hex(machine) in ('6E31', '6F2700C3A9')"),
            "{text}"
        );
        assert!(bills(&[]).contains("in (null)"));
    }
}
