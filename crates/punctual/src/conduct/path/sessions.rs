//! A session for each block of an experiment. An open connection keeps what it has learnt with the
//! settings before: its time-out does not grow back to a longer `rto_min`, its window began with
//! the earlier `initcwnd`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_network::sender::connect::Session;
use punctual_network::sender::{Ended, Outcome, rings};
use punctual_record::path::ResponderReport;
use punctual_rt::clock;

use super::joining::{Joined, lock};
use super::plan::PathPlan;
use super::threads::{self, Threads};
use super::{REPORT_WITHIN, connect};
use crate::conduct::experiment::Around;

/// How often it is checked whether the last replies have come.
const LOOK: Duration = Duration::from_millis(2);
/// How long before the first message the threads are let go.
const RUN_UP_NS: u64 = 5_000_000;

/// A connection, and the threads that measure on it.
pub struct Live {
    /// The session with the responder.
    pub session: Session,
    /// The threads.
    pub threads: Threads,
}

/// What the sessions so far leave for the record.
#[derive(Default)]
pub struct Left {
    /// What their threads reported.
    pub outcomes: Vec<Option<Outcome>>,
    /// What the responder saw in the last.
    pub report: Option<ResponderReport>,
}

/// One session after the other.
pub struct Sessions {
    plan: PathPlan,
    joined: Arc<Mutex<Joined>>,
    live: Option<Live>,
    /// How long the last replies of a block are waited for.
    patience_ns: u64,
    left: Arc<Mutex<Left>>,
}

impl Sessions {
    /// With the session that showed that the path can be measured, in which nothing was sent.
    pub fn new(
        plan: PathPlan,
        joined: Arc<Mutex<Joined>>,
        live: Live,
        settle_ns: u64,
        left: Arc<Mutex<Left>>,
    ) -> Self {
        Self {
            plan,
            joined,
            live: Some(live),
            patience_ns: settle_ns / 2,
            left,
        }
    }

    /// Waits until every message has its reply, for a while: what is then outstanding is lost.
    fn drain(&self, threads: &Threads) {
        let until_ns = clock::now_ns().saturating_add(self.patience_ns);
        while clock::now_ns() < until_ns {
            let has_sent_all = threads.has_sent_all();
            let mut joined = lock(&self.joined);
            joined.take();
            if threads.has_received_all() || (has_sent_all && joined.joiner.is_settled()) {
                return;
            }
            drop(joined);
            std::thread::sleep(LOOK);
        }
    }
}

impl Around for Sessions {
    fn before(&mut self) -> Result<(), String> {
        let Some(Live {
            mut session,
            mut threads,
        }) = self.live.take()
        else {
            return Ok(());
        };
        if threads.was_let_go() {
            self.drain(&threads);
        }
        let outcomes = threads.end_on(&session.line);
        session.line.end_sending();
        lock(&self.joined).finish();
        let ended = outcomes.iter().flatten().find_map(|it| match &it.ended {
            Ended::Completed => None,
            Ended::Closed => Some("the responder ended the connection".to_owned()),
            Ended::Garbled => Some("what came is no reply of this session".to_owned()),
            Ended::Failed(error) => Some(error.to_string()),
        });
        let report = session.control.end(REPORT_WITHIN);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.outcomes.extend(outcomes);
        match (ended, report) {
            (Some(why), _) => Err(format!("{}: {why}", self.plan.host)),
            (None, Err(error)) => Err(error.to_string()),
            (None, Ok((report, delays))) => {
                lock(&self.joined).joiner.explain_peer(&delays);
                left.report = Some(report);
                Ok(())
            }
        }
    }

    fn after(&mut self, from_ns: u64, to_ns: u64) -> Result<(), String> {
        let (session, _) = connect(&self.plan).map_err(|error| error.to_string())?;
        let interval_ns = self.plan.interval.shortest_ns();
        let (writers, readers) =
            rings(interval_ns, self.plan.burst).map_err(|error| error.to_string())?;
        let threads = threads::start(&self.plan, &session.line, writers)
            .map_err(|error| error.to_string())?;
        lock(&self.joined).next_session(readers, from_ns);
        let begin = || clock::now_ns().saturating_add(RUN_UP_NS);
        while !threads.go(begin(), from_ns, Some(to_ns)) {}
        self.live = Some(Live { session, threads });
        Ok(())
    }
}
