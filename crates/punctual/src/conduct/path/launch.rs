//! Messages with launch times: what sends them at their instant.

use std::net::IpAddr;

use punctual_machine::queueing::{LaunchedBy, launching_to};
use punctual_network::sender::Launch;
use punctual_record::Run;
use punctual_record::condition::{Condition, Demand, Fix};
use punctual_record::path::{LaunchCounts, LaunchTimes};

use crate::conduct::error::ConductError;

/// What sends messages to this address at their launch times.
///
/// # Errors
/// Nothing does.
pub fn to(address: IpAddr, lead_ns: u64) -> Result<LaunchTimes, ConductError> {
    let found = launching_to(address).map_err(ConductError::Launch)?;
    let (discipline, by_card) = match found.by {
        LaunchedBy::Fq => ("fq", false),
        LaunchedBy::EtfCard => ("etf", true),
    };
    Ok(LaunchTimes {
        lead_ns,
        interface: found.interface,
        discipline: discipline.to_owned(),
        by_card,
        counts: LaunchCounts::default(),
    })
}

/// How the kernel is to be told.
pub fn of(launch: &LaunchTimes) -> Launch {
    Launch {
        lead_ns: launch.lead_ns,
        by_card: launch.by_card,
    }
}

/// Whether messages left at their launch times, as far as it is seen. What is not seen, without a card
/// that holds them, may have left before, and would be measured as faster than it is.
pub fn demand(run: &Run) -> Option<Demand> {
    let path = run.path.as_ref()?;
    let launch = path.launch.as_ref()?;
    let early = (launch.counts.seen > 0).then_some(launch.counts.early);
    let condition = Condition::LaunchTimes {
        interface: launch.interface.clone(),
        discipline: launch.discipline.clone(),
        by_card: launch.by_card,
        early,
        earliest_ns: launch.counts.earliest_ns,
    };
    let in_force = early == Some(0) || launch.by_card || path.counts.sent == 0;
    Some(Demand::requested(condition, in_force, || {
        let interface = launch.interface.clone();
        match early {
            Some(_) => Fix::LaunchDiscipline { interface },
            None => Fix::DriverStamps { interface },
        }
    }))
}
