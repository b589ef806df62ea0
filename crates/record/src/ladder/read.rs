//! Reading `ladder.json`. It may come from anywhere: reading is total, and what is accepted keeps
//! its promises.

use super::{Ladder, LadderBlock, LadderDesign, LadderStep};
use crate::bounds::{Bounds, Broken, at_most, cpu, ensure, histogram};
use crate::document::Document;
use crate::experiment::is_sound;

/// Blocks: of a second, those of a day.
const MOST_BLOCKS: usize = 1 << 17;
/// Comparisons of one ladder.
const MOST_STEPS: usize = 16;

impl Document for Ladder {
    const WHAT: &'static str = "record of a ladder";
    const FILE: &'static str = "ladder.json";
    const PAGE: Option<&'static str> = Some("ladder.html");
    const FORMAT: &'static str = "punctual-ladder";
    const VERSION: u32 = 1;

    fn header(&self) -> (&str, u32) {
        (&self.format, self.version)
    }

    fn promises(&self) -> Result<(), Broken> {
        promises(self)
    }

    // One that was killed is judged now.
    fn conclude(&mut self) {
        if self.steps.is_empty() {
            self.judge();
        }
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
