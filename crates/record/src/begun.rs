//! A record before anything was measured.

use super::document::Document;
use super::event::State;
use super::run::{OwnCost, Request, Run, Timeline, Tool};
use super::system::SystemState;

impl Run {
    /// The record of a run that begins: what was requested, of which machine, and no figure yet.
    #[must_use]
    pub fn begun(
        tool: Tool,
        verb: &str,
        started: String,
        request: Request,
        system: SystemState,
    ) -> Self {
        Self {
            format: Run::FORMAT.to_owned(),
            version: Run::VERSION,
            tool,
            verb: verb.to_owned(),
            command: Vec::new(),
            started,
            start_ns: None,
            state: State::Unfinished,
            request,
            placement: None,
            system,
            findings: None,
            tuned: Vec::new(),
            demands: Vec::new(),
            measured_ns: 0,
            threads: Vec::new(),
            timeline: Timeline::default(),
            blocks: None,
            loads: Vec::new(),
            events: Vec::new(),
            own_cost: OwnCost::default(),
            analysis: None,
            verdict: None,
            imported: None,
            merged: None,
            laboratory: None,
            explanation: None,
            experiment: None,
            tasks: None,
            path: None,
            gaps: None,
            cross_check: None,
            watch: None,
            stops: None,
        }
    }
}
