//! From flags to the plan of a measurement of the path to another machine.

use std::path::Path;

use punctual_network::sender::join::longest_timeout_ns;
use punctual_network::wire::limits;
use punctual_network::wire::proof::Token;
use punctual_stats::format::duration;

use super::super::failure::Failure;
use super::super::flags::{IntervalKind, MeasureFlags, PathFlags, Probe, QualifyFlags, RunFlags};
use super::{Defaults, MEASURE, QUALIFY, make, refuse_senseless};
use crate::conduct::path::PathPlan;
use crate::probe::kinds::KINDS;
use punctual_record::Interval;
use punctual_record::path::Transport;

/// The variable that has the token.
pub const TOKEN: &str = "PUNCTUAL_TOKEN";
/// The length of messages.
const BYTES: u32 = 256;
/// The deadline of a message of `qualify --path`.
const DEADLINE_NS: u64 = 1_000_000;
/// The least time after which a message is lost.
const TIMEOUT_NS: u64 = 1_000_000_000;

/// The plan of `measure tcp` and its relatives; `None` for what measures no path.
///
/// # Errors
/// Wrong usage; there is no token.
pub fn wanted(flags: &MeasureFlags) -> Result<Option<PathPlan>, Failure> {
    let Probe::Path(transport) = flags.probe else {
        if let Some(host) = &flags.host {
            return Err(Failure::usage(format!(
                "'{host}': only measure tcp, udp and raw take a HOST: see `punctual measure --help`"
            )));
        }
        return match flags.path.first_given() {
            Some(flag) => Err(Failure::usage(format!(
                "{flag}: only measure tcp, udp and raw have it"
            ))),
            None => Ok(None),
        };
    };
    let verb = format!("measure {}", transport.name());
    let Some(host) = &flags.host else {
        return Err(Failure::usage(format!(
            "{verb}: expected HOST, the machine on which `punctual respond` runs"
        )));
    };
    if let Some(flag) = flags.gaps.first_given() {
        return Err(Failure::usage(format!("{flag} has no meaning for {verb}")));
    }
    if flags.gaps.cross_check {
        return Err(Failure::usage(format!(
            "--cross-check has no meaning for {verb}: the kernel has no tracer of messages"
        )));
    }
    plan(&verb, transport, host, &flags.path, &flags.run, MEASURE).map(Some)
}

/// The plan of `qualify --path`.
///
/// # Errors
/// As [`wanted`].
pub fn of_qualify(host: &str, flags: &QualifyFlags) -> Result<PathPlan, Failure> {
    let defaults = Defaults {
        deadline_ns: Some(DEADLINE_NS),
        interval: IntervalKind::Fixed,
        ..QUALIFY
    };
    let transport = flags.over.map_or(Transport::Tcp, Transport::from);
    plan(
        "qualify --path",
        transport,
        host,
        &flags.path_flags,
        &flags.run,
        defaults,
    )
}

pub(super) fn plan(
    verb: &str,
    transport: Transport,
    host: &str,
    path: &PathFlags,
    flags: &RunFlags,
    defaults: Defaults,
) -> Result<PathPlan, Failure> {
    const NO_WAKE_UPS: &str = "messages are no wake-ups of a CPU";
    refuse_senseless(
        verb,
        &[
            (
                flags.threads.is_some(),
                "-t",
                "one thread sends, another receives",
            ),
            (flags.samples, "--samples", NO_WAKE_UPS),
            (
                flags.explain_above.is_some(),
                "--explain-above",
                NO_WAKE_UPS,
            ),
            (flags.stack_above.is_some(), "--stack-above", NO_WAKE_UPS),
            (
                flags.tuned.is_some(),
                "--tuned",
                "it tunes one machine of two: use punctual tune on both",
            ),
        ],
    )?;
    let lead_ns = lead_ns(transport, path)?;
    let token = token(path.token_file.as_deref())?;
    let token = token.ok_or_else(|| {
        Failure::usage(format!(
            "no token: `punctual respond` on the other machine prints one; give it in the variable \
             {TOKEN} or with --token-file"
        ))
    })?;
    let sizes = match &path.size[..] {
        [] => vec![BYTES],
        sizes => sizes.to_vec(),
    };
    let (most, what) = match transport {
        Transport::Tcp => (limits::MOST_MESSAGE_BYTES, "over TCP"),
        Transport::Udp => (limits::MOST_DATAGRAM_BYTES, "in one datagram"),
        Transport::Raw => (limits::MOST_ETHERNET_BYTES, "in one Ethernet frame"),
    };
    if let Some(size) = sizes.iter().find(|size| **size > most) {
        return Err(Failure::usage(format!(
            "--size {size}: at most {most} bytes {what}"
        )));
    }
    if sizes.len() > limits::MOST_SIZES {
        return Err(Failure::usage(format!(
            "--size: at most {} lengths",
            limits::MOST_SIZES
        )));
    }
    let made = make(KINDS[0], flags, defaults)?;
    let deadline_ns = made.claim.deadline_ns().unwrap_or(0);
    let burst = path.burst.unwrap_or(1);
    let longest_ns = match transport {
        // Nothing is lost on the way.
        Transport::Tcp => u64::MAX,
        _ => longest_timeout_ns(made.probes.interval.nominal_ns(), burst),
    };
    let usual_ns = TIMEOUT_NS.max(deadline_ns.saturating_mul(10));
    let timeout_ns = path
        .timeout
        .unwrap_or(usual_ns.min(longest_ns).max(deadline_ns));
    if timeout_ns < deadline_ns {
        return Err(Failure::usage(format!(
            "--timeout {} is shorter than the deadline of {}",
            duration(timeout_ns),
            duration(deadline_ns)
        )));
    }
    let least_ns = made.probes.interval.shortest_ns();
    if least_ns < limits::LEAST_INTERVAL_NS {
        return Err(Failure::usage(format!(
            "-i: an interval of {least_ns} ns: expected at least {}",
            duration(limits::LEAST_INTERVAL_NS)
        )));
    }
    if timeout_ns > longest_ns {
        return Err(Failure::usage(format!(
            "--timeout {}: more messages may wait for replies than there is memory for, {burst} each {}: expected at \
             most {}, or longer intervals (-i), smaller bursts or a shorter deadline",
            duration(timeout_ns),
            duration(made.probes.interval.nominal_ns()),
            duration(longest_ns)
        )));
    }
    let counted_ns = match (flags.loops, &made.probes.interval) {
        (None, _) => None,
        (Some(count), Interval::Fixed { interval_ns }) => Some(count.saturating_mul(*interval_ns)),
        (Some(_), _) => {
            return Err(Failure::usage(format!(
                "-l has no meaning for {verb} with intervals that differ: use -D"
            )));
        }
    };
    let cpus = &made.probes.cpus;
    let first = cpus.first().copied().unwrap_or(0);
    Ok(PathPlan {
        verb: made.verb,
        command: made.command,
        host: host.to_owned(),
        token,
        transport,
        sizes,
        burst,
        lead_ns,
        interval: made.probes.interval,
        timeout_ns,
        late_ns: made.claim.deadline_ns(),
        stamps: !path.no_stamps,
        explain: !flags.no_explain && !path.no_stamps,
        cpus: [first, cpus.get(1).copied().unwrap_or(first)],
        policy: made.probes.policy,
        placement: made.placement,
        duration_ns: [made.duration_ns, counted_ns].into_iter().flatten().min(),
        break_ns: made.probes.break_ns,
        load: made.load,
        claim: made.claim,
        conditions: made.conditions,
        output: made.output,
    })
}

/// How long before its instant a message is passed to the kernel.
fn lead_ns(transport: Transport, path: &PathFlags) -> Result<Option<u64>, Failure> {
    let Some(lead_ns) = path.txtime else {
        return Ok(None);
    };
    if path.no_stamps {
        return Err(Failure::usage(
            "--txtime with --no-stamps: without time stamps nothing shows that messages left at their \
             launch times",
        ));
    }
    if transport == Transport::Tcp {
        return Err(Failure::usage(
            "--txtime: TCP itself decides when it sends: use udp or raw",
        ));
    }
    if !(limits::LEAST_LEAD_NS..=limits::MOST_LEAD_NS).contains(&lead_ns) {
        return Err(Failure::usage(format!(
            "--txtime {}: expected {} to {}",
            duration(lead_ns),
            duration(limits::LEAST_LEAD_NS),
            duration(limits::MOST_LEAD_NS)
        )));
    }
    Ok(Some(lead_ns))
}

/// The token of a file or the environment; never of the command line, which every user of the
/// machine can read. `None`: neither has one.
///
/// # Errors
/// The file can't be read, or is no token.
pub fn token(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let (place, text) = match file {
        Some(path) => {
            let place = format!("--token-file {}", path.display());
            let text =
                read_short(path).map_err(|error| Failure::setup(format!("{place}: {error}")))?;
            (place, text)
        }
        None => match std::env::var(TOKEN) {
            Ok(text) => (TOKEN.to_owned(), text),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(Failure::usage(format!("{TOKEN}: {error}"))),
        },
    };
    match Token::parse(&text) {
        Ok(token) => Ok(Some(token)),
        Err(error) => Err(Failure::usage(format!("{place}: {error}"))),
    }
}

/// Reads a file that should be a line, and no more of it than a line can have.
fn read_short(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let most = limits::MOST_TOKEN_BYTES as u64 + 2;
    std::fs::File::open(path)?
        .take(most)
        .read_to_string(&mut text)?;
    Ok(text)
}
