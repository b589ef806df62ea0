//! The output of `examples/truth`, and the requirements on it.

use serde_json::Value;

/// The required quality of the bills, in percent.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The fewest injections that allow a conclusion.
    pub least: u64,
    /// The greatest share with lost or missing events.
    pub blind: u64,
    /// Whether a hypervisor's agent may have the CPU, whose time has no events.
    pub agent: bool,
    /// The share in which the culprit is named.
    pub named: u64,
    /// The share in which the duration is right to 2 % or 5 µs.
    pub timed: u64,
    /// The greatest error of half of the durations, in ns.
    pub off_by_ns: u64,
    /// The share in which the bill is explained.
    pub explained: u64,
    /// The greatest unexplained or blind share of the outliers' time.
    pub residue: f64,
}

/// A culprit whose bills do not meet the requirements, or that this machine can't inject, and why.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    Wrong(String),
    Skipped(String),
}

/// Its JSON lines, in order; other lines are left out.
pub fn lines(text: &str) -> Vec<Value> {
    let parsed = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    parsed
        .filter(|line: &Value| line["culprit"].is_string())
        .collect()
}

/// Whether a culprit was in the way, but too seldom for shares to say anything: its rows must sum even so.
pub fn is_seldom(line: &Value, wanted: Wanted) -> bool {
    let injected = line["injected"].as_u64();
    let is_seldom = line["skipped"].is_null()
        && injected.is_some_and(|injected| (1..wanted.least).contains(&injected));
    if is_seldom {
        assert_eq!(line["summed"], line["injected"], "{line:#}");
    }
    is_seldom
}

/// Checks a line against the requirements.
pub fn hold(line: &Value, wanted: Wanted) -> Result<(), Trouble> {
    let name = line["culprit"].as_str().unwrap_or_default();
    if let Some(why) = line["skipped"].as_str() {
        return Err(Trouble::Skipped(format!("{name}: {why}")));
    }
    let count = |key: &str| line[key].as_u64().unwrap_or(0);
    let wrong = |what: &str| Err(Trouble::Wrong(format!("{what}: {line:#}")));
    if name == "quiet" {
        // A wake-up with lost events, or that began earlier, has no stages.
        let (whole, samples) = (count("whole"), count("samples"));
        if line["left"] != 0 {
            return wrong("something is left in the kernel");
        }
        if samples < 100 || count("lost") == 0 && whole * 100 < samples * 98 {
            return wrong("stages are missing");
        }
        return Ok(());
    }
    let injected = count("injected");
    if injected < wanted.least {
        return wrong("it was hardly ever in the way");
    }
    if count("agents") > 0 && !wanted.agent {
        return wrong("events are missing while the first process runs");
    }
    if count("blind") * 100 > (injected + count("blind")) * wanted.blind {
        return wrong("too much was not seen");
    }
    if count("summed") != injected {
        return wrong("rows don't sum to the latency");
    }
    if let Some(numbered) = line["numbered"].as_u64()
        && numbered * 100 < count("named") * wanted.named
    {
        return wrong("its thread is another one");
    }
    if count("named") * 100 < injected * wanted.named {
        return wrong("the culprit is not named");
    }
    if count("timed") * 100 < injected * wanted.timed {
        return wrong("its duration is not right");
    }
    let placed = ["preempt-off", "call"].contains(&name);
    // What others do on the CPU before the probe sleeps again hides who had left it.
    if placed && count("placed") * 100 < count("named") * wanted.timed {
        return wrong("where it was in the kernel is not told");
    }
    // A stack is taken when the probe sleeps again: it may delay a wake-up that is due just then.
    // How often depends on the phases, of one kind by chance: all together must be half as rare.
    if count("traced") * 10 > injected || count("traced_ns") * 100 > count("total_ns") {
        return wrong("tracing takes its time");
    }
    let off_by_ns = line["off_by_ns"].as_i64().unwrap_or(i64::MAX);
    if off_by_ns.unsigned_abs() > wanted.off_by_ns {
        return wrong("durations are not right");
    }
    if count("explained") * 100 < injected * wanted.explained {
        return wrong("too many bills are unexplained");
    }
    if count("residue_ns") as f64 > count("total_ns") as f64 * wanted.residue / 100.0 {
        return wrong("too much is unexplained");
    }
    Ok(())
}
