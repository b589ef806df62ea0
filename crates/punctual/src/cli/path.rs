//! `measure tcp` and its relatives, `qualify --path`, and `respond`.

use std::net::SocketAddr;
use std::process::ExitCode;

use punctual_network::framed;
use punctual_network::numeric;
use punctual_network::responder::{Config, Notice, SessionEnd};
use punctual_network::wire::PORT;
use punctual_network::wire::proof::Token;

use super::failure::Failure;
use super::flags::{PolicyName, RespondFlags, RunFlags};
use super::measuring::{conclude_breach, make_directory, print_breach, settled, show};
use super::out;
use super::plan::path::{TOKEN, token};
use super::run::chosen;
use super::screen::Screen;
use crate::conduct::path::{self, PathPlan, Responding};
use punctual_record::path::ResponderReport;
use punctual_report::facts::unavailable;
use punctual_stats::format::{count, duration};

/// The priority of the thread that replies.
const PRIORITY: u32 = 80;

/// Measures a path and shows it.
///
/// # Errors
/// Wrong usage, or there is no session with the other machine.
pub fn run(plan: &PathPlan, flags: &RunFlags) -> Result<ExitCode, Failure> {
    let directory = make_directory(plan.output.as_deref(), &plan.verb)?;
    let mut screen = Screen::of_run(flags);
    let outcome = path::measure(plan, &directory, &mut screen);
    let run = settled(outcome, &mut screen, &directory)?;
    print_breach(&run);
    show(&run, flags.json, flags.quiet, flags.verbose, &directory);
    conclude_breach(&flags.breach, &run, &directory)
}

/// Answers as the other end.
///
/// # Errors
/// Wrong usage, or it cannot listen.
pub fn respond(flags: &RespondFlags) -> Result<ExitCode, Failure> {
    if flags.policy == PolicyName::Other && flags.priority.is_some() {
        return Err(Failure::usage(PolicyName::NO_PRIORITY));
    }
    let address = address(&flags.address)?;
    let (token, is_random) = match token(flags.token_file.as_deref())? {
        Some(token) => (token, false),
        None => {
            let bytes = framed::random().map_err(Failure::setup)?;
            (Token::from_random(bytes), true)
        }
    };
    let cpus = chosen(flags.affinity.as_deref(), "--affinity")?;
    if flags.explain && cpus.len() != 1 {
        return Err(Failure::usage(
            "--explain: give the CPU of the thread that replies, with -a",
        ));
    }
    let shown = is_random.then(|| token.reveal().to_owned());
    let plan = Responding {
        config: Config {
            address,
            token,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: flags.policy.at(flags.priority.unwrap_or(PRIORITY)),
            cpus,
            most_bytes: flags.most_bytes,
            most_duration_ns: flags.most_time,
            raw: flags.raw,
            explain: flags.explain,
            once: flags.once,
        },
        as_deployed: flags.as_deployed,
    };
    let quiet = flags.quiet;
    let served = path::respond(plan, |notice| {
        if let (Notice::Listening(_), Some(token)) = (&notice, &shown) {
            out::print(&format!("{TOKEN}={token}\n"));
        }
        if !quiet || matches!(notice, Notice::Rejected(..) | Notice::NotExplained(..)) {
            tell(&notice);
        }
    });
    served.map_err(|error| Failure::setup(format!("{address}: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
fn address(text: &str) -> Result<SocketAddr, Failure> {
    match numeric::parse(text, PORT) {
        Ok(Some(at)) => Ok(at),
        Ok(None) => Err(Failure::usage(format!(
            "invalid value '{text}' for ADDRESS: expected an address of this machine, such as \
             10.0.0.2, 10.0.0.2:{PORT}, [fd00::2] or fe80::2%eth0; 0.0.0.0 for all of them"
        ))),
        Err(error) => Err(Failure::usage(format!(
            "invalid value '{text}' for ADDRESS: {error}"
        ))),
    }
}

/// Tells what the responder does, a line each, on standard error.
fn tell(notice: &Notice) {
    match notice {
        Notice::Listening(at) => out::complain(&format!("listening on {at}")),
        Notice::Rejected(peer, why) => out::complain(&format!("{peer}: no session: {why}")),
        Notice::Dropped(number) => out::complain(&format!(
            "{} connections were dropped: too many at once",
            count(*number)
        )),
        Notice::Began(peer, transport) => {
            out::complain(&format!("{peer}: session over {}", transport.name()));
        }
        Notice::NotExplained(peer, why) => out::complain(&format!(
            "{peer}: delays of the thread that replies are not explained: {}",
            unavailable(why)
        )),
        Notice::Ended(peer, end, report) => {
            let how = match end {
                SessionEnd::Completed => "session ended".to_owned(),
                SessionEnd::Vanished => "the sender is gone".to_owned(),
                SessionEnd::TooLong => "the session was too long, and was ended".to_owned(),
                SessionEnd::Halted => "the session was ended by the end of this program".to_owned(),
                SessionEnd::Failed(why) => format!("the session failed: {why}"),
            };
            out::complain(&format!("{peer}: {how}: {}", figures(report)));
        }
    }
}

fn figures(report: &ResponderReport) -> String {
    let mut text = format!(
        "{} messages, {} replies",
        count(report.received),
        count(report.replied)
    );
    if let Some(wake_up) = &report.wake_up {
        text += &format!(
            ", woken at most {} after a message came",
            duration(wake_up.max_ns)
        );
    }
    text
}
