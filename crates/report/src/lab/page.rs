//! `lab.html`: the table of a lab as one file that needs nothing from anywhere, with a link to
//! each run's own page.

use std::fmt::Write as _;

use super::super::html::class;
use super::super::html::frame;
use super::super::html::parts::{Html, Td, address, escape, td, td_in};
use super::super::verdict::sentence;
use super::super::words::{count, plural};
use super::{
    NO_LATENCIES, Spread, bill, cost, effort, evidence, label, names, no_bill, no_result, ratio,
    short, spread, tasks, verdict_of,
};
use punctual_record::lab::{Lab, LabCell};
use punctual_record::laboratory::{GuestTime, Laboratory};

const CSS: &str = include_str!("page.css");
const LIMITS: &str = include_str!("limits.html");
/// Functions shown of a whole bill; the rest is one row.
const SHOWN: usize = 20;
/// Characters shown of a checksum.
const SUM: usize = 16;

/// The page of a lab. `base` stands before each link: nothing where the page lies in the lab's
/// own directory, else that directory.
#[must_use]
pub fn page(lab: &Lab, base: &str) -> String {
    let mut html = Html::default();
    let machines = names(&lab.cells, |cell| &cell.kernel);
    let loads = names(&lab.cells, |cell| &cell.load);
    let title = format!("Laboratory: {}", machines.join(", "));
    frame::open(&mut html, &title, CSS);
    header(&mut html, lab, &machines, &loads);
    html.raw("<main>\n");
    if let Some(proof) = &lab.proof {
        super::proof::section(&mut html, proof);
    }
    if cost::is_counted(lab) {
        cost::section(&mut html, lab);
    } else {
        matrix(&mut html, lab, &machines, &loads, base);
        tasks::section(&mut html, lab);
    }
    without_result(&mut html, lab);
    verdicts(&mut html, lab);
    bills(&mut html, lab);
    super::bound::section(&mut html, lab);
    html.heading("limits", "What this shows, and what it does not show");
    html.raw(LIMITS);
    fingerprints(&mut html, lab, &machines);
    provenance(&mut html, lab, &machines, &loads);
    html.raw("</main>\n");
    frame::close(&mut html, &lab.tool);
    html.into_page()
}

fn of_host(lab: &Lab) -> bool {
    lab.cells.iter().any(|cell| {
        let laboratory = cell.laboratory.as_ref();
        laboratory.is_some_and(|laboratory| laboratory.time == GuestTime::Host)
    })
}

/// The cells of one place of the matrix: one for each seed.
fn at<'a>(lab: &'a Lab, machine: &str, load: &str) -> Vec<&'a LabCell> {
    let of = |cell: &&LabCell| cell.kernel == machine && cell.load == load;
    lab.cells.iter().filter(of).collect()
}

fn laboratory<'a>(lab: &'a Lab, machine: &str) -> Option<&'a Laboratory> {
    let mut of = lab.cells.iter().filter(|cell| cell.kernel == machine);
    of.find_map(|cell| cell.laboratory.as_ref())
}

/// When and what; the worst of each machine.
fn header(html: &mut Html, lab: &Lab, machines: &[&str], loads: &[&str]) {
    html.raw("<header>\n");
    let where_from = [
        "<b>punctual lab</b>".to_owned(),
        escape(&lab.started),
        escape(&plural(lab.cells.len() as u64, "run", "runs")),
    ];
    html.raw(&format!(
        "<div class=\"where\">{}</div>\n",
        where_from.join(" · ")
    ));
    html.raw("<section class=\"banner none\">\n");
    html.text("h1", "", "Real kernels in virtual time");
    let say = if of_host(lab) {
        NO_LATENCIES.to_owned()
    } else {
        "One instruction is one nanosecond, whatever the host does: the same figures come out \
         again, digit for digit."
            .to_owned()
    };
    html.text("p", "say long", &say);
    html.raw("</section>\n");
    let mut tiles = String::new();
    for machine in machines.iter().filter(|_| !of_host(lab)) {
        let places = loads.iter().filter_map(|load| {
            let found = spread(at(lab, machine, load).into_iter())?;
            Some((found.max_ns, *load))
        });
        let Some((max_ns, load)) = places.max_by_key(|(max_ns, _)| *max_ns) else {
            continue;
        };
        let _ = writeln!(
            tiles,
            "<div><dt>Worst on {}</dt><dd>{} ns<small>{}</small></dd></div>",
            escape(&short(machine)),
            count(max_ns),
            escape(load)
        );
    }
    if !tiles.is_empty() {
        html.raw(&format!("<dl class=\"tiles\">\n{tiles}</dl>\n"));
    }
    html.raw("</header>\n");
}

/// Where a cell's own page lies: for a program, what it printed.
fn link(cell: &LabCell, base: &str) -> String {
    let own = cell.laboratory.as_ref();
    let own = own.is_none_or(|laboratory| laboratory.program.is_none());
    let file = if own { "report.html" } else { "stdout" };
    address(base, &format!("{}/{file}", cell.directory))
}

fn matrix(html: &mut Html, lab: &Lab, machines: &[&str], loads: &[&str], base: &str) {
    let executed = tasks::executed(lab);
    let heading = match executed {
        true => "Verdict by load and machine",
        false => "Worst wake-up by load and machine",
    };
    html.heading("table", heading);
    let host = of_host(lab);
    let all = || {
        let places = machines.iter().flat_map(|machine| {
            let of = |load: &&str| spread(at(lab, machine, load).into_iter());
            loads.iter().filter_map(of)
        });
        places.map(|found| found.max_ns.max(1))
    };
    let (least, most) = (all().min().unwrap_or(1), all().max().unwrap_or(1));
    let caption = if host {
        "Exit statuses."
    } else {
        "Virtual ns. × is the ratio to the first machine; the function is where most instructions \
         of the worst wake-up ran; the bar is the worst, on a logarithmic scale."
    };
    if !executed {
        html.text("p", "note", caption);
    }
    html.raw(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">\n\
         <table class=\"figures matrix\">\n<thead><tr><th scope=\"col\">load</th>",
    );
    for machine in machines {
        let release = laboratory(lab, machine).map_or_else(String::new, super::booted);
        let _ = write!(
            html,
            "<th scope=\"col\"><b>{}</b><small>{}</small></th>",
            escape(&short(machine)),
            escape(&release)
        );
    }
    html.raw("</tr></thead>\n<tbody>\n");
    for load in loads {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(load));
        let first = machines.first().and_then(|machine| {
            let found = spread(at(lab, machine, load).into_iter())?;
            Some(found.max_ns)
        });
        for (index, machine) in machines.iter().enumerate() {
            let cells = at(lab, machine, load);
            let scale = Scale {
                first: first.filter(|_| index > 0),
                least,
                most,
            };
            html.raw(&place(&cells, &scale, base));
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table>\n</div>\n");
    if host || executed {
        return;
    }
    html.text("p", "note", &evidence(lab, machines, loads));
    for cell in &lab.cells {
        if let Some(why) = &cell.no_bill {
            let why = no_bill(why);
            let text = format!("{}: no function is named: {why}.", label(cell));
            html.text("p", "note", &text);
        }
    }
}

/// What a place is compared with.
struct Scale {
    /// The worst of the first machine.
    first: Option<u64>,
    /// Of all places.
    least: u64,
    most: u64,
}

impl Scale {
    /// How long a bar is, in percent.
    fn percent(&self, value: u64) -> f64 {
        let of = |value: u64| (value.max(1) as f64).ln();
        let whole = of(self.most) - of(self.least);
        let share = if whole > 0.0 {
            (of(value) - of(self.least)) / whole
        } else {
            0.0
        };
        // The least is seen as well.
        4.0 + 96.0 * share.clamp(0.0, 1.0)
    }
}

/// One place of the matrix.
fn place(cells: &[&LabCell], scale: &Scale, base: &str) -> String {
    let worst = cells.iter().max_by_key(|cell| {
        let max = cell.figures.map(|figures| figures.max_ns);
        (max, cell.status)
    });
    let Some(worst) = worst else {
        return "<td class=\"dim\">–</td>".to_owned();
    };
    let to = link(worst, base);
    let Some(Spread {
        seeds,
        least_max_ns,
        max_ns,
        p99_ns,
        mean_ns,
        ..
    }) = spread(cells.iter().copied())
    else {
        let verdict = verdict_of(cells.iter().copied()).filter(|_| !worst.tasks.is_empty());
        if let Some(outcome) = verdict {
            return format!(
                "<td><a href=\"{to}\"><span class=\"word {}\">{}</span></a></td>",
                class(Some(outcome)),
                outcome.word()
            );
        }
        return match (worst.status, &worst.error) {
            (Some(status), None) => format!("<td><a href=\"{to}\">exit status {status}</a></td>"),
            _ => "<td class=\"bad\">no result</td>".to_owned(),
        };
    };
    let mut out = format!("<td><a href=\"{to}\">{}</a>", count(max_ns));
    if let Some(first) = scale.first {
        let _ = write!(
            out,
            "<span class=\"ratio\">×{}</span>",
            ratio(max_ns, first)
        );
    }
    let verdict = worst.verdict.as_ref().map(|it| it.verdict.outcome);
    if let Some(outcome) = verdict {
        let _ = write!(
            out,
            " <span class=\"word {}\">{}</span>",
            class(Some(outcome)),
            outcome.word()
        );
    }
    let _ = write!(
        out,
        "<i class=\"bar\"><i style=\"width:{:.1}%\"></i></i>",
        scale.percent(max_ns)
    );
    if let Some(function) = bill::top(worst) {
        let _ = write!(out, "<div class=\"code\">{}</div>", escape(&function));
    }
    let mut more = format!(
        "p99 {} · mean {}",
        count(p99_ns),
        count(mean_ns.round() as u64)
    );
    if seeds > 1 {
        let _ = write!(more, " · {seeds} seeds, least {}", count(least_max_ns));
    }
    let _ = write!(out, "<div class=\"more\">{}</div></td>", escape(&more));
    out
}

fn without_result(html: &mut Html, lab: &Lab) {
    let failed: Vec<(&str, Vec<Td>)> = lab
        .cells
        .iter()
        .filter_map(|cell| {
            let error = cell.error.as_ref()?;
            Some(("", vec![td(label(cell)), td_in("bad", no_result(error))]))
        })
        .collect();
    if !failed.is_empty() {
        html.heading("failed", "Without a result");
        html.table("wide stack", "Why", &["Machine and load", "Why"], &failed);
    }
}

fn verdicts(html: &mut Html, lab: &Lab) {
    let judged: Vec<(&str, Vec<Td>)> = lab
        .cells
        .iter()
        .filter_map(|cell| {
            let judgement = cell.verdict.as_ref()?;
            let outcome = judgement.verdict.outcome;
            let cells = vec![
                td(label(cell)),
                td_in("word", outcome.word()),
                td(sentence(judgement)),
            ];
            Some((class(Some(outcome)), cells))
        })
        .collect();
    if !judged.is_empty() {
        html.heading("verdicts", "Verdicts");
        let head = ["Machine and load", "Verdict", "In words"];
        html.table(
            "wide stack",
            "What was required, and what came of it",
            &head,
            &judged,
        );
    }
}

/// The whole bill of each cell's worst wake-up, folded.
fn bills(html: &mut Html, lab: &Lab) {
    if lab.cells.iter().all(|cell| cell.bills.is_empty()) {
        return;
    }
    html.heading("bills", "Which functions they were");
    html.text("p", "note", bill::WHAT_IS_COUNTED);
    for cell in &lab.cells {
        let Some(bill) = cell.bills.first() else {
            continue;
        };
        let top = bill::top(cell).unwrap_or_default();
        let _ = writeln!(
            html,
            "<details><summary>{}: <b>{}</b> <span class=\"code\">{}</span></summary>",
            escape(&label(cell)),
            count(bill.total_ns),
            escape(&top)
        );
        let rows: Vec<(&str, Vec<Td>)> = bill::rows(bill, SHOWN)
            .into_iter()
            .map(|(function, instructions, share)| {
                let cells = vec![td(function), td(count(instructions)), td(share)];
                ("", cells)
            })
            .collect();
        let head = ["Function", "Instructions", "Share"];
        html.table("figures tight", &bill::title(bill), &head, &rows);
        html.raw("</details>\n");
    }
}

fn fingerprints(html: &mut Html, lab: &Lab, machines: &[&str]) {
    html.heading("fingerprint", "What it depends on");
    html.text(
        "p",
        "",
        "Two labs with the same checksums of QEMU, its firmware, the kernel, the guest's files and \
         the command line have the same results, to the byte. Where one differs, the figures are \
         those of another machine.",
    );
    for machine in machines {
        let Some(found) = laboratory(lab, machine) else {
            continue;
        };
        let print = &found.fingerprint;
        let firmware: Vec<String> = print
            .firmware_sha256
            .iter()
            .map(|(name, sum)| format!("{name} {}", sum_of(sum)))
            .collect();
        let mut facts = vec![
            ("Kernel".to_owned(), found.release.clone()),
            ("Its image".to_owned(), print.kernel_sha256.clone()),
        ];
        if let Some(package) = &found.package {
            facts.push(("Its package".to_owned(), package.clone()));
        }
        if !found.parameters.is_empty() {
            facts.push(("Parameters".to_owned(), found.parameters.join(" ")));
        }
        if !found.modules.is_empty() {
            facts.push(("Modules".to_owned(), found.modules.join(", ")));
        }
        if !found.brought.is_empty() {
            facts.push(("Brought along".to_owned(), found.brought.join(", ")));
        }
        let processors = plural(found.cpus, "processor", "processors");
        facts.extend([
            (
                "Machine".to_owned(),
                format!("{processors}, {} MiB of memory", found.memory_mib),
            ),
            ("Firmware".to_owned(), firmware.join(", ")),
            (
                "Emulator".to_owned(),
                format!("QEMU {}, {}", print.emulator, print.emulator_sha256),
            ),
            (
                "Boot".to_owned(),
                format!("{} virtual ns to the first process", count(found.boot_ns)),
            ),
        ]);
        html.facts(machine, &facts);
    }
    let rows: Vec<(&str, Vec<Td>)> = lab
        .cells
        .iter()
        .filter_map(|cell| {
            let found = cell.laboratory.as_ref()?;
            let print = &found.fingerprint;
            let sum = |sum: &str| td_in("mono", sum_of(sum));
            let cells = vec![
                td(label(cell)),
                td(cell.directory.clone()),
                sum(&print.command_sha256),
                sum(&print.initramfs_sha256),
                sum(&print.result_sha256),
            ];
            Some(("", cells))
        })
        .collect();
    html.raw("<details><summary>Checksums of each machine</summary>\n");
    html.table(
        "figures tight left",
        "SHA-256, the first digits; all stand in lab.json",
        &[
            "Machine and load",
            "Directory",
            "Command line",
            "Guest's files",
            "Result",
        ],
        &rows,
    );
    html.raw("</details>\n");
}

fn sum_of(sum: &str) -> String {
    sum.chars().take(SUM).collect()
}

fn provenance(html: &mut Html, lab: &Lab, machines: &[&str], loads: &[&str]) {
    html.heading("provenance", "Where it comes from");
    let what = laboratory(lab, machines.first().copied().unwrap_or_default());
    let ran = what.map_or_else(String::new, |found| found.words.join(" "));
    let facts = [
        ("Command".to_owned(), lab.command.join(" ")),
        ("In the first guest".to_owned(), ran),
        ("Started".to_owned(), lab.started.clone()),
        (
            "Evidence".to_owned(),
            match cost::is_counted(lab) {
                true => effort(lab),
                false => evidence(lab, machines, loads),
            },
        ),
        (
            "Again".to_owned(),
            "punctual lab verify DIRECTORY runs it again and says identical, or the first \
             difference; punctual lab compare compares it with another."
                .to_owned(),
        ),
        (
            "Record".to_owned(),
            format!(
                "{} version {}, lab.json beside this file",
                lab.format, lab.version
            ),
        ),
    ];
    html.facts("Enough to do it again", &facts);
}
