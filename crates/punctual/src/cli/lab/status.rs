//! The progress of a lab: "3 of 16 cells done, about 4 min left".

use std::time::{Duration, Instant};

use punctual_stats::format::count as grouped;

use crate::conduct::lab::{Cell, Forecast, figures};
use punctual_lab::CellResult;
use punctual_record::lab::NoResult;
use punctual_record::taskset::TaskRun;
use punctual_report::lab::label_of;

/// `3 of 16`.
pub fn count(forecast: &Forecast) -> String {
    format!("{} of {}", forecast.finished(), forecast.total())
}

/// The status line.
pub fn line(forecast: &Forecast, now: Instant) -> String {
    let left = forecast.left(now).map_or_else(
        || format!("{} running", forecast.running()),
        |left| format!("{} left", about(left)),
    );
    format!("{} cells done, {left}", count(forecast))
}

/// The end of a cell's line: the time left, unless the cell was the last.
pub fn rest(forecast: &Forecast, now: Instant) -> String {
    match forecast.left(now) {
        Some(left) if forecast.finished() < forecast.total() => format!("; {} left", about(left)),
        _ => String::new(),
    }
}

/// The line for a cell that is done: how many are, its result, and the time left.
pub fn done_line(
    cell: &Cell<'_>,
    outcome: &Result<CellResult, NoResult>,
    forecast: &Forecast,
) -> String {
    let label = label_of(&cell.column, &cell.load, cell.plan.seed);
    let result = match outcome {
        Ok(made) => {
            let tasks = made.run.as_ref().and_then(|run| run.tasks.as_ref());
            let what = match (figures(made), tasks) {
                (Some(figures), _) => format!("worst {} virtual ns", grouped(figures.max_ns)),
                (None, Some(tasks)) => late_jobs(tasks),
                (None, None) if made.cost.is_some() => "counted".to_owned(),
                (None, None) => format!("exit status {}", made.status),
            };
            format!(
                "{what}; {:.1} s of the host's time",
                made.took.as_secs_f64()
            )
        }
        Err(_) => "no result".to_owned(),
    };
    let rest = rest(forecast, Instant::now());
    format!("{}  {label}: {result}{rest}\n", count(forecast))
}

/// `2 of 11,892 jobs late or skipped`
fn late_jobs(tasks: &TaskRun) -> String {
    let jobs = tasks.tasks.iter().map(|task| &task.jobs);
    let (mut late, mut all) = (0u64, 0u64);
    for jobs in jobs {
        late = late.saturating_add(jobs.late).saturating_add(jobs.missed);
        all = all
            .saturating_add(jobs.latency.count)
            .saturating_add(jobs.missed);
    }
    format!("{} of {} jobs late or skipped", grouped(late), grouped(all))
}

/// An estimated time, with few digits.
fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..5 => "a few seconds".to_owned(),
        5..90 => format!("about {} s", seconds.next_multiple_of(5)),
        90..5400 => format!("about {} min", seconds.div_ceil(60)),
        _ => format!("about {} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn no_time_is_estimated_before_the_first_cell_is_done() {
        let now = Instant::now();
        let mut forecast = Forecast::new(16, 2);
        forecast.begun(0, now);
        forecast.begun(1, now);
        assert_eq!(line(&forecast, now), "0 of 16 cells done, 2 running");
        forecast.done(1, now + 30 * SECOND);
        assert_eq!(
            line(&forecast, now + 30 * SECOND),
            "1 of 16 cells done, about 4 min left"
        );
        // The estimate does not become negative when a cell takes longer than those before.
        assert_eq!(
            line(&forecast, now + 3000 * SECOND),
            "1 of 16 cells done, about 4 min left"
        );
    }

    #[test]
    fn an_estimated_time_has_few_digits() {
        for (seconds, words) in [
            (0, "a few seconds"),
            (7, "about 10 s"),
            (89, "about 90 s"),
            (90, "about 2 min"),
            (601, "about 11 min"),
            (7300, "about 2 h 1 min"),
        ] {
            assert_eq!(about(SECOND * seconds), words);
        }
    }
}
