//! Reading `ladder.json`. It may come from anywhere: reading is total, and what is accepted keeps
//! its promises.

use std::path::{Path, PathBuf};

use super::{
    LADDER_FILE, LADDER_FORMAT, LADDER_VERSION, Ladder, LadderBlock, LadderDesign, LadderStep,
};
use crate::bounds::{Bounds, Broken, at_most, cpu, ensure, histogram};
use crate::error::RecordError;
use crate::experiment::is_sound;
use crate::read::{FileKind, slurp};
use crate::scan;

/// What opens the file.
const LADDER_KIND: FileKind = FileKind {
    what: "record of a ladder",
    format: LADDER_FORMAT,
    version: LADDER_VERSION,
};
/// Bytes of `ladder.json`.
const MOST_BYTES: u64 = 64 << 20;
/// Blocks: of a second, those of a day.
const MOST_BLOCKS: usize = 1 << 17;
/// Comparisons of one ladder.
const MOST_STEPS: usize = 16;

/// Whether a path is that of a ladder: the file, or a directory that holds it.
#[must_use]
pub fn is_ladder(path: &Path) -> bool {
    path.join(LADDER_FILE).is_file() || path.file_name() == Some(LADDER_FILE.as_ref())
}

/// Reads `ladder.json`: `path` is the file or its directory, which is returned too. Total, as
/// reading a run is. One that was killed is judged now.
///
/// # Errors
/// [`RecordError`] with the path and the place.
pub fn read_ladder(path: &Path) -> Result<(Ladder, PathBuf), RecordError> {
    let (file, directory) = if path.is_dir() {
        (path.join(LADDER_FILE), path.to_owned())
    } else {
        let parent = path.parent().unwrap_or(Path::new(""));
        (path.to_owned(), parent.to_owned())
    };
    let bytes = slurp(&file, MOST_BYTES)?;
    let mut ladder = parse_ladder(&file, &bytes)?;
    if ladder.steps.is_empty() {
        ladder.judge();
    }
    Ok((ladder, directory))
}

/// As [`read_ladder`], from memory, and without judging.
///
/// # Errors
/// As [`read_ladder`].
pub fn parse_ladder(path: &Path, bytes: &[u8]) -> Result<Ladder, RecordError> {
    scan::check(path, bytes, &scan::RECORD)?;
    let ladder: Ladder = LADDER_KIND.decode(path, bytes)?;
    LADDER_KIND.check(path, Some(&ladder.format), Some(ladder.version.into()))?;
    match promises(&ladder) {
        Err(Broken { place, reason }) => Err(RecordError::malformed(path, place, reason)),
        Ok(()) => Ok(ladder),
    }
}

/// What a ladder promises beyond its types.
fn promises(ladder: &Ladder) -> Result<(), Broken> {
    at_most(ladder.command.len(), Bounds::SHORT_LIST, "command")?;
    at_most(ladder.loads.len(), Bounds::SHORT_LIST, "loads")?;
    at_most(ladder.switched.len(), Bounds::SETTINGS, "switched")?;
    design(&ladder.design)?;
    let rungs = &ladder.rungs;
    ensure(!rungs.is_empty(), "rungs", "no rung")?;
    ensure(
        rungs.windows(2).all(|pair| pair[0].rung < pair[1].rung),
        "rungs",
        "not from the lowest to the highest",
    )?;
    for (at, it) in rungs.iter().enumerate() {
        let place = format!("rungs[{at}].response");
        let is_consistent = !it.is_measured || it.not_possible.is_none();
        ensure(is_consistent, place.as_str(), "measured, and not possible")?;
        histogram(&it.response, &place)?;
        let is_whole = it.response.count == it.counts.cycles;
        ensure(is_whole, place, "not one response time for each cycle")?;
    }
    let is_measured = |rung| ladder.measured().contains(&rung);
    let is_known = ladder.control.is_none_or(is_measured);
    ensure(is_known, "control", "a rung that is not measured")?;
    at_most(ladder.blocks.len(), MOST_BLOCKS, "blocks")?;
    for (at, it) in ladder.blocks.iter().enumerate() {
        block(ladder, it, &format!("blocks[{at}]"))?;
    }
    at_most(ladder.steps.len(), MOST_STEPS, "steps")?;
    for (at, it) in ladder.steps.iter().enumerate() {
        step(ladder, it, &format!("steps[{at}]"))?;
    }
    Ok(())
}

fn design(design: &LadderDesign) -> Result<(), Broken> {
    let is_share = design.confidence > 0.0 && design.confidence < 1.0;
    ensure(is_share, "design.confidence", "not within 0 and 1")?;
    cpu(design.cpu, "design.cpu")?;
    cpus(&design.cpus, "design.cpus")
}

fn cpus(list: &[usize], place: &str) -> Result<(), Broken> {
    at_most(list.len(), Bounds::CPUS, place)?;
    list.iter().try_for_each(|it| cpu(*it, place))
}

fn block(ladder: &Ladder, block: &LadderBlock, place: &str) -> Result<(), Broken> {
    let is_known = ladder.measured().contains(&block.rung);
    ensure(is_known, place, "of a rung that is not measured")?;
    let is_control = ladder.control == Some(block.rung);
    ensure(
        is_control || !block.is_second,
        place,
        "the second of a rung that is not the control",
    )?;
    cpus(&block.in_force.cpus, &format!("{place}.in_force.cpus"))
}

fn step(ladder: &Ladder, step: &LadderStep, place: &str) -> Result<(), Broken> {
    for rung in [step.from, step.to] {
        let is_known = ladder.measured().contains(&rung);
        ensure(is_known, place, "of a rung that is not measured")?;
    }
    let place = format!("{place}.result.effects");
    at_most(step.result.effects.len(), 4, place.as_str())?;
    let mut effects = step.result.effects.iter();
    ensure(effects.all(is_sound), place, "no ratio")
}
