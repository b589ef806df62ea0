//! The classic scheduler benchmark: groups of senders that each write to
//! every receiver of their group. The same letters, counts and output line as
//! the hackbench of rt-tests; no limit unless `loops` is given.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use crate::board::Slot;
use crate::context::Context;
use crate::error::WorkError;
use crate::generator::Generator;
use crate::parameter::{Amount, Parameter, Values};
use crate::sys;

/// The registry's entry.
pub const GENERATOR: Generator = Generator {
    name: "hackbench",
    unit: "messages",
    also: &[],
    description: "groups of senders and receivers over sockets or pipes: wake-ups",
    parameters: &[
        Parameter {
            key: "groups",
            description: "groups, each with 'fds' senders and 'fds' receivers",
            default: Amount::PerCpu(1),
            least: 1,
            most: 10_000,
        },
        Parameter {
            key: "loops",
            description: "messages from each sender to each receiver; 0: no limit",
            default: Amount::Fixed(0),
            least: 0,
            most: 1_000_000_000,
        },
        Parameter {
            key: "datasize",
            description: "bytes in a message",
            default: Amount::Fixed(100),
            least: 1,
            most: 1 << 20,
        },
        Parameter {
            key: "fds",
            description: "senders, and also receivers, in a group",
            default: Amount::Fixed(20),
            least: 1,
            most: 1000,
        },
        Parameter {
            key: "pipe",
            description: "1: use pipes instead of socket pairs",
            default: Amount::Fixed(0),
            least: 0,
            most: 1,
        },
        Parameter {
            key: "threads",
            description: "1: use threads instead of processes",
            default: Amount::Fixed(0),
            least: 0,
            most: 1,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        // A process with its page tables and kernel stack, and a full buffer.
        let (process, buffer) = (100 << 10, 212 << 10);
        let members = values["groups"].saturating_mul(values["fds"]);
        members.saturating_mul(2 * process + buffer + 2 * values["datasize"])
    },
    run,
};

fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let plan = Plan {
        fds: context.size("fds"),
        loops: context.value("loops"),
        datasize: context.size("datasize"),
    };
    let groups = context.size("groups");
    let pipes = context.is_on("pipe");
    let threads = context.is_on("threads");
    context.board().expect(2 * plan.fds * groups);
    let channel = || {
        channel(pipes).map_err(WorkError::advised(
            "opening a channel failed",
            "raise the limit of open files (ulimit -n) or give fewer groups",
        ))
    };
    let channels = |_| (0..plan.fds).map(|_| channel()).collect();
    if threads {
        let groups: Result<Vec<Vec<_>>, WorkError> = (0..groups).map(channels).collect();
        run_threads(context, &plan, &groups?)
    } else {
        for group in 0..groups {
            // Only this group's ends are open at a time: its members inherit
            // them, and they are closed before the next group's are made.
            let channels: Result<Vec<_>, WorkError> = channels(group);
            start_group(context, &plan, group, &channels?)?;
        }
        reap(context, &plan, 2 * plan.fds * groups)
    }
}

struct Plan {
    fds: usize,
    loops: u64,
    datasize: usize,
}

/// The read end and the write end.
type Channel = (File, File);

fn channel(pipe: bool) -> io::Result<Channel> {
    if pipe {
        let (reader, writer) = io::pipe()?;
        Ok((OwnedFd::from(reader).into(), OwnedFd::from(writer).into()))
    } else {
        let (reader, writer) = UnixStream::pair()?;
        Ok((OwnedFd::from(reader).into(), OwnedFd::from(writer).into()))
    }
}

fn start_group(
    context: &Context<'_>,
    plan: &Plan,
    group: usize,
    channels: &[Channel],
) -> Result<(), WorkError> {
    for (index, (reader, _)) in channels.iter().enumerate() {
        let slot = context.slot(group * plan.fds + index);
        context.fork(|| {
            context.board().arrive();
            receive(plan, reader, slot).map_err(WorkError::system("reading failed"))
        })?;
    }
    for _ in channels {
        context.fork(|| {
            context.board().arrive();
            send(plan, channels).map_err(WorkError::system("writing failed"))
        })?;
    }
    Ok(())
}

fn reap(context: &Context<'_>, plan: &Plan, members: usize) -> Result<(), WorkError> {
    for _ in 0..members {
        let ended = sys::wait(None, true).map_err(WorkError::system("waiting failed"))?;
        context.board().left();
        match ended {
            Some(ended) if !ended.success() || plan.loops == 0 => {
                let who = format!("process {}", ended.pid);
                return Err(WorkError::ended(who, ended));
            }
            _ => {}
        }
    }
    context.board().finish();
    Ok(())
}

fn run_threads(
    context: &Context<'_>,
    plan: &Plan,
    groups: &[Vec<Channel>],
) -> Result<(), WorkError> {
    let board = context.board();
    let broken = |error: WorkError| {
        board.fail(&error);
        // The other threads wait for messages that will never come.
        sys::exit_now(1);
    };
    let member = |group: usize, index: usize| {
        let channels = &groups[group];
        board.arrive();
        // Receivers first, as with processes.
        let done = match channels.get(index) {
            Some((reader, _)) => receive(plan, reader, context.slot(group * plan.fds + index)),
            None => send(plan, channels),
        };
        if let Err(error) = done {
            broken(WorkError::system("a thread's message failed")(error));
        }
        board.left();
    };
    let member = &member;
    thread::scope(|scope| {
        for group in 0..groups.len() {
            for index in 0..2 * plan.fds {
                let builder = thread::Builder::new().stack_size(64 << 10);
                let spawned = builder.spawn_scoped(scope, move || member(group, index));
                if let Err(error) = spawned {
                    let hint = "raise the limit of processes (ulimit -u, pids.max)";
                    broken(WorkError::advised("starting a thread failed", hint)(error));
                }
            }
        }
    });
    board.finish();
    Ok(())
}

/// Sends `loops` messages to each receiver.
fn send(plan: &Plan, channels: &[Channel]) -> io::Result<()> {
    let data = vec![b'-'; plan.datasize];
    let mut done = 0;
    while plan.loops == 0 || done < plan.loops {
        for (_, writer) in channels {
            let mut writer = writer;
            writer.write_all(&data)?;
        }
        done += 1;
    }
    Ok(())
}

/// Receives `loops` messages from each sender of the group.
fn receive(plan: &Plan, reader: &File, slot: &Slot) -> io::Result<()> {
    let mut data = vec![0; plan.datasize];
    let messages = plan.loops * plan.fds as u64;
    let mut done = 0;
    while plan.loops == 0 || done < messages {
        read_whole(reader, &mut data)?;
        slot.add(1);
        done += 1;
    }
    Ok(())
}

fn read_whole(mut from: &File, data: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        match from.read(&mut data[done..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}
