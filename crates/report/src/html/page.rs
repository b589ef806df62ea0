//! The page as a whole: head, banner, order of the sections.

use punctual_record::Field;
use punctual_stats::verdict::Outcome;

use super::parts::Html;
use super::{executed, explained, frame, sections, tables};
use crate::draw::svg::escape;
use crate::figures::Figures;
use crate::marks::marks;
use crate::terms::Terms;
use crate::{conditions, experiment, statements, words};
use punctual_record::Run;
use punctual_record::invalid::not_in_force;
use punctual_record::live::RowsAre;

/// The report of a run as one HTML file.
#[must_use]
pub fn page(run: &Run) -> String {
    let figures = Figures::from_run(run);
    let marks = marks(run);
    let headline = statements::headline(run);
    let mut html = Html::default();

    let word = headline.outcome.map_or("measured", Outcome::word);
    let title = format!("{word}: {} on {}", run.verb, run.system.hostname);
    frame::open(&mut html, &title, "");
    banner(&mut html, run, &figures);
    html.contents();
    html.raw("<main>\n");
    experiment::html_section(&mut html, run);
    tables::requirements(&mut html, run);
    // What was not in force comes before any figure.
    let broken =
        not_in_force(run).next().is_some() || run.events.iter().any(|event| event.invalidates);
    if broken {
        sections::validity(&mut html, run);
        sections::events(&mut html, run);
    }
    executed::executed(&mut html, run);
    tables::figures(&mut html, run, &figures);
    sections::histogram(&mut html, &figures, &marks);
    sections::timeline(&mut html, run, &marks);
    sections::lanes(&mut html, run, &figures, &marks);
    sections::percentiles(&mut html, run, &figures, &marks);
    tables::worst(&mut html, run, &figures);
    tables::watched(&mut html, run);
    explained::explained(&mut html, run);
    sections::statistics(&mut html, run);
    if !broken {
        sections::validity(&mut html, run);
    }
    if run.watch.is_none() {
        sections::load(&mut html, run);
    }
    crate::tuned::section(&mut html, run);
    sections::findings(&mut html, run);
    sections::conditions(&mut html, run);
    if !broken {
        sections::events(&mut html, run);
    }
    sections::guide(&mut html, run);
    sections::provenance(&mut html, run);
    html.raw("</main>\n");
    frame::close(&mut html, &run.tool);
    html.into_page()
}

/// The class of a verdict.
pub(crate) fn class(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "none",
        Some(Outcome::Pass) => "pass",
        Some(Outcome::Fail) => "fail",
        Some(Outcome::Inconclusive) => "inconclusive",
        Some(Outcome::Invalid) => "invalid",
    }
}

/// Who, where and when; the verdict; the few figures that everyone asks for.
fn banner(html: &mut Html, run: &Run, figures: &Figures) {
    let headline = statements::headline(run);
    let (outcome, claim) = match &run.experiment {
        // Its knobs are judged, not the machine.
        Some(_) => {
            let outcome = experiment::outcome(run);
            let failed = outcome.filter(|outcome| *outcome != Outcome::Pass);
            (failed, experiment::sentence(run))
        }
        None => (headline.outcome, headline.claim),
    };
    html.raw("<header>\n");
    let rest = [
        conditions::kernel(run),
        format!("{} {}", run.tool.name, run.verb),
        conditions::begun(run),
    ];
    let rest = rest.iter().filter(|part| !part.is_empty());
    let rest: String = rest.map(|part| format!(" · {}", escape(part))).collect();
    html.raw(&format!(
        "<div class=\"where\"><b>{}</b>{rest}</div>\n",
        escape(&run.system.hostname)
    ));
    html.raw(&format!(
        "<section class=\"banner {}\" aria-label=\"Verdict\">\n",
        class(outcome)
    ));
    let word = match (&run.experiment, outcome) {
        (_, Some(outcome)) => outcome.word(),
        (Some(_), None) => "EXPERIMENT",
        (None, None) => "NO VERDICT",
    };
    html.text("h1", "", word);
    let sentence = claim.strip_prefix(&format!("{word}: ")).unwrap_or(&claim);
    let long = sentence.chars().count() > 220;
    html.text(
        "p",
        if long { "say long" } else { "say" },
        &capital(sentence),
    );
    if let Some(standing) = statements::standing(run) {
        html.text("p", "state", &standing);
    }
    html.raw("</section>\n");
    tiles(html, run, figures);
    html.raw("</header>\n");
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

fn tiles(html: &mut Html, run: &Run, figures: &Figures) {
    let all = &figures.merged;
    let dash = || "—".to_owned();
    // A maximum never stands without its sample size and duration.
    let mut sample = format!("of {}", words::count(all.count));
    if run.knows(Field::MeasuredTime) {
        sample += &format!(" in {}", words::duration(run.measured_ns));
    }
    let mut tiles = vec![(
        "Maximum",
        all.max.map_or_else(dash, words::duration),
        sample,
    )];
    if let Some(rung) = all.ladder.iter().rev().find(|rung| rung.value_ns.is_some()) {
        let name = format!("{} samples beyond", words::count(rung.samples_beyond));
        let value = words::duration(rung.value_ns.unwrap_or(0));
        let (label, value) = if (rung.percentile - 99.999).abs() < 1e-9 {
            ("p99.999", value)
        } else {
            let value = format!("p{} {value}", rung.percentile);
            ("Highest supported percentile", value)
        };
        tiles.push((label, value, name));
    }
    tiles.push((
        "Median",
        all.percentile(50.0).map_or_else(dash, words::duration),
        String::new(),
    ));
    if run.imported.is_some() {
        write_tiles(html, &tiles);
        return;
    }
    let late = run.request.requirements.is_empty();
    let missed = match run.gaps {
        Some(_) => String::new(),
        None if run.path.is_some() => format!("{} unanswered", words::count(all.missed)),
        None => format!("{} skipped", words::plural(all.missed, "period", "periods")),
    };
    tiles.push((
        Terms::for_run(run).late,
        if late { dash() } else { words::count(all.late) },
        missed,
    ));
    tiles.push((
        "Lost samples",
        words::count(all.lost),
        format!(
            "on {}",
            match figures.rows_are {
                RowsAre::Threads => words::plural(figures.rows.len() as u64, "thread", "threads"),
                RowsAre::Cpus => words::plural(figures.rows.len() as u64, "CPU", "CPUs"),
            }
        ),
    ));
    let stolen = run
        .system
        .virtualisation
        .stolen_share
        .filter(|s| s.is_finite());
    if let Some(share) = stolen {
        tiles.push((
            "Stolen by the host",
            words::share(share),
            "of the probed CPUs' time".to_owned(),
        ));
    }
    write_tiles(html, &tiles);
}

fn write_tiles(html: &mut Html, tiles: &[(&str, String, String)]) {
    html.raw("<dl class=\"tiles\">\n");
    for (name, value, small) in tiles {
        html.raw("<div>");
        html.text("dt", "", name);
        html.raw(&format!("<dd>{}", escape(value)));
        html.text("small", "", small);
        html.raw("</dd></div>\n");
    }
    html.raw("</dl>\n");
}
