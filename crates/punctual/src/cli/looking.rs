//! `report`, `merge` and `export`: read records and write something else.

use punctual_record::cost::Cost;
use punctual_record::document::directory_of;
use punctual_record::fit::Fit;
use punctual_record::lab::Lab;
use punctual_record::ladder::Ladder;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::failure::{Failure, SETUP};
use super::flags::{ExportFlags, MergeFlags, ReportFlags};
use super::foreign;
use super::measuring::{conclude, make_directory, page_of};
use super::out;
use super::save::save_whole;
use punctual_record::files::Folder;
use punctual_record::merge::{Decoded, Merger};
use punctual_record::{RecordError, Run, RunDirectory};
use punctual_report::facts;
use punctual_report::formats;
use punctual_report::view::View;
use punctual_report::{gnuplot, html, summary_json, svg, terminal};

/// `report`: shows a record, and writes its pictures if a flag says so.
///
/// # Errors
/// What cannot be read or written.
pub fn report(flags: &ReportFlags) -> Result<ExitCode, Failure> {
    let of_many = [
        report_if::<Lab>,
        report_if::<Fit>,
        report_if::<Ladder>,
        report_if::<Cost>,
    ];
    if let Some(reported) = of_many.iter().find_map(|report| report(flags)) {
        return reported;
    }
    let run = read(&flags.run)?;
    let mut written = false;
    let mut unsaved = Vec::new();
    if let Some(file) = &flags.html {
        unsaved.extend(write(file, &html::page(&run)).err().map(|it| it.line));
        written = true;
    }
    for (directory, files) in [
        (&flags.svg, svg::files(&run)),
        (&flags.gnuplot, gnuplot::files(&run)),
    ] {
        if let Some(directory) = directory {
            folder(directory)?;
            let folder = RunDirectory::existing(directory).map_err(Failure::setup)?;
            for (name, text) in files {
                // What is missing is reported below, all of it.
                let _ = folder.save_file(name, text.as_bytes());
            }
            unsaved.extend(folder.unsaved().iter().map(facts::unsaved));
            written = true;
        }
    }
    if flags.json {
        out::print(&summary_json::summary(&run));
    } else if !written {
        out::print(&terminal::summary(
            &run,
            &out::style().verbose(flags.verbose),
        ));
    }
    unsaved.iter().for_each(|line| out::complain(line));
    Ok(if unsaved.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(SETUP)
    })
}

/// `report` of a document that is made of many runs, where the path is that of one.
fn report_if<V: View>(flags: &ReportFlags) -> Option<Result<ExitCode, Failure>> {
    V::is_at(&flags.run).then(|| report_of::<V>(flags))
}

/// Its summary, its JSON, or its page.
fn report_of<V: View>(flags: &ReportFlags) -> Result<ExitCode, Failure> {
    let lacks = |what: &str, instead: &str| {
        let (path, kind) = (flags.run.display(), V::A);
        Failure::usage(format!("{path}: {kind} has no {what}: {instead}"))
    };
    if flags.svg.is_some() || flags.gnuplot.is_some() {
        return Err(lacks("pictures", V::INSTEAD_OF_PICTURES));
    }
    if flags.html.is_some() && V::PAGE.is_none() {
        return Err(lacks("page", "its summary and --json show all of it"));
    }
    let document = V::read(&flags.run).map_err(Failure::setup)?;
    if let Some(file) = &flags.html {
        let page = document.page(&base(file, directory_of(&flags.run))?);
        write(file, &page.unwrap_or_default())?;
    } else if flags.json {
        out::print(&document.json());
    } else {
        out::print(&document.summary(&out::style()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The prefix of a page's links to its runs: empty if the page lies beside them.
fn base(page: &Path, directory: &Path) -> Result<String, Failure> {
    let whole = |path: &Path| {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        fs::canonicalize(path)
            .map_err(|error| Failure::setup(format!("{}: {error}", path.display())))
    };
    let directory = whole(directory)?;
    if page != Path::new("-") && whole(page.parent().unwrap_or(Path::new("")))? == directory {
        return Ok(String::new());
    }
    Ok(directory.to_string_lossy().into_owned())
}

/// `merge`: merges runs.
///
/// # Errors
/// Runs that cannot be read or merged, or a result that cannot be written.
pub fn merge(flags: &MergeFlags) -> Result<ExitCode, Failure> {
    let mut merger = Merger::new(flags.force);
    let decode = |run: Run| (Decoded::ahead(&run), run);
    punctual_record::read_each(&flags.runs, decode, |path, read| {
        let (decoded, run) = read.map_err(|error| match foreign::is_one(path) {
            true => recording(path),
            false => Failure::setup(error),
        })?;
        match decoded {
            Some(decoded) => merger.add_decoded(&run, &decoded),
            None => merger.add(&run),
        }
        .map_err(|error| {
            let why = facts::merge_error(&error);
            Failure::setup(format!("{}: {why}", path.display()))
        })
    })?;
    let command = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let run = merger.into_run(command).map_err(Failure::setup)?;
    let directory = make_directory(flags.output.as_deref(), "merge")?;
    if let Err(error) = directory.save(&run) {
        directory.discard_if_empty();
        return Err(Failure::setup(error));
    }
    let mut files = gnuplot::files(&run);
    files.extend(svg::files(&run));
    files.push(("report.html", html::page(&run)));
    for (name, text) in files {
        // What is missing is reported below; the merged run is valid without it.
        let _ = directory.save_file(name, text.as_bytes());
    }
    let style = out::style().verbose(flags.verbose);
    if flags.quiet {
        out::print(&terminal::verdict_line(&run, &style));
    } else {
        let style = style.with_report(page_of::<Run>(&directory));
        out::print(&terminal::summary(&run, &style));
    }
    Ok(conclude(&run, &directory))
}

/// `export`: writes a run in another format.
///
/// # Errors
/// What cannot be read or written.
pub fn export(flags: &ExportFlags) -> Result<ExitCode, Failure> {
    let run = read(&flags.run)?;
    let text = formats::write(flags.format, &run).map_err(Failure::setup)?;
    write(flags.output.as_deref().unwrap_or(Path::new("-")), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a run; a run that was killed before its verdict is analysed now.
pub(super) fn read(path: &Path) -> Result<Run, Failure> {
    let read = formats::detect_and_read(path);
    if read.is_err() && foreign::is_one(path) {
        return Err(recording(path));
    }
    let mut run = read.map_err(Failure::setup)?;
    if run.analysis.is_none() && run.imported.is_none() {
        run.analysis = punctual_record::analyse_record(&run).ok();
    }
    if let Some(experiment) = &mut run.experiment
        && experiment.results.is_empty()
    {
        // It was killed: its blocks were saved, and are judged now.
        experiment.judge();
    }
    Ok(run)
}

/// The error for a recording, which has no figures.
fn recording(path: &Path) -> Failure {
    let path = path.display();
    Failure::setup(format!(
        "{path}: a recording of events, not a run: `punctual explain {path}` shows its wake-ups, \
         `punctual explain {path} OTHER` compares it with another"
    ))
}

/// Opens a directory for files, and makes it first if it does not exist.
pub(super) fn folder(path: &Path) -> Result<Folder, Failure> {
    Folder::make_all(path).map_err(|error| Failure::setup(format!("{}: {error}", path.display())))
}

/// Writes a file in a directory, completely or not at all.
pub(super) fn write_in(folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    folder.replace(OsStr::new(name), bytes).map_err(|source| {
        let path = folder.path().join(name);
        Failure::setup(RecordError::Save { path, source })
    })
}

/// Writes a file, completely or not at all; `-` is standard output.
pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if file == Path::new("-") {
        out::print(text);
        return Ok(());
    }
    save_whole(file, text.as_bytes()).map_err(Failure::setup)
}
