//! The hidden verb `__operations`: makes operations again and again in a guest, and prints how many
//! instructions they took. The guest's clock counts those: an instruction is a nanosecond.

mod alone;
mod pairs;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};

use punctual_lab::cell::OWN_NAME;
use punctual_record::lab::{LabOperation, Operation};
use punctual_rt::clock::now_ns;
use punctual_stats::cost::Usage;

use crate::conduct::cost::runner::{Whose, used};

/// The hidden verb.
pub const VERB: &str = "__operations";
/// This program's file.
const OWN_FILE: &str = "/proc/self/exe";
/// Its argument for the program that a start of a program is measured with.
const NOTHING: &str = "nothing";
/// Wrong usage, as in sysexits.h.
const USAGE: u8 = 64;
/// Batches of each operation, an odd number: one of them is the median.
const BATCHES: usize = 11;
/// Batches before, which aren't counted: they fill the kernel's caches and touch this program's pages, and the
/// scheduler needs some until both threads of a pair are treated alike.
const FIRST: usize = 2;

/// The words with which a guest makes these operations and prints what they took.
#[must_use]
pub fn words(operations: &[Operation]) -> Vec<String> {
    let names: Vec<&str> = operations.iter().map(|it| it.name()).collect();
    vec![OWN_NAME.to_owned(), VERB.to_owned(), names.join(",")]
}

/// The entry of `__operations NAMES`, with the arguments after the verb.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let names = arguments.into_iter().next().unwrap_or_default();
    if names == NOTHING {
        return ExitCode::SUCCESS;
    }
    let names = names.to_string_lossy();
    let wanted: Option<Vec<Operation>> = names.split(',').map(Operation::named).collect();
    let Some(wanted) = wanted else {
        let _ = writeln!(
            io::stderr(),
            "punctual: {VERB} is for punctual itself: use 'punctual lab cost'"
        );
        return ExitCode::from(USAGE);
    };
    let mut made = Vec::with_capacity(wanted.len());
    for operation in &wanted {
        let counted = match wanted.len() {
            1 => make(*operation),
            _ => by_itself(*operation),
        };
        match counted {
            Ok(counted) => made.push(counted),
            Err(error) => {
                let _ = writeln!(io::stderr(), "{}: {error}", operation.name());
                return ExitCode::FAILURE;
            }
        }
    }
    let text = serde_json::to_string(&made).unwrap_or_default();
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Makes an operation in a process of its own: what another one left in a process, such as its stacks and
/// mappings, makes a fork longer.
fn by_itself(operation: Operation) -> io::Result<LabOperation> {
    let name = operation.name();
    let mut command = Command::new(OWN_FILE);
    let output = command.args([VERB, name]).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let why = said.strip_prefix(&format!("{name}: ")).unwrap_or(said);
        return Err(io::Error::other(why.to_owned()));
    }
    let counted: Vec<LabOperation> = serde_json::from_slice(&output.stdout)?;
    let mut counted = counted.into_iter();
    counted
        .next()
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Makes an operation as often as a few milliseconds of the guest's time allow: at least a tick comes in most
/// batches.
fn make(operation: Operation) -> io::Result<LabOperation> {
    let series = |count| Series { operation, count };
    match operation {
        Operation::User => alone::user(series(500)),
        Operation::Call => alone::call(series(20_000)),
        Operation::Read => alone::read(series(4_000)),
        Operation::Write => alone::write(series(4_000)),
        Operation::Fault => alone::fault(series(2_000)),
        Operation::Mmap => alone::mmap(series(800)),
        Operation::File => alone::file(series(400)),
        Operation::Signal => alone::signal(series(1_500)),
        Operation::Fork => alone::fork(series(20)),
        Operation::Exec => alone::exec(series(4)),
        Operation::Yield => pairs::yields(series(2_000)),
        Operation::Futex => pairs::futex(series(500)),
        Operation::FutexFifo => pairs::at_one_priority(|| pairs::futex(series(500))),
        Operation::Pipe => pairs::pipe(series(500)),
        Operation::PipeFifo => pairs::at_one_priority(|| pairs::pipe(series(500))),
        Operation::Udp => pairs::udp(series(300)),
        Operation::Tcp => pairs::tcp(series(300)),
        Operation::TcpFifo => pairs::at_one_priority(|| pairs::tcp(series(300))),
        Operation::Sleep => pairs::sleep(series(100)),
        // Those are a whole program's.
        Operation::Run | Operation::Processor => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// An operation, and how often each batch makes it.
#[derive(Debug, Clone, Copy)]
struct Series {
    operation: Operation,
    count: u64,
}

impl Series {
    /// Counts batches of operations that need nothing between them.
    fn count(self, mut once: impl FnMut() -> io::Result<()>) -> io::Result<LabOperation> {
        self.count_batches(|count| {
            let begin = now_ns();
            for _ in 0..count {
                once()?;
            }
            Ok(now_ns() - begin)
        })
    }

    /// Counts batches, each of which makes so many operations and returns the time that they took.
    fn count_batches(
        self,
        mut batch: impl FnMut(u64) -> io::Result<u64>,
    ) -> io::Result<LabOperation> {
        for _ in 0..FIRST {
            batch(self.count)?;
        }
        let mut batches = Vec::with_capacity(BATCHES);
        let before = usage()?;
        for _ in 0..BATCHES {
            batches.push(batch(self.count)?);
        }
        let after = usage()?;
        let of = |it: fn(&Usage) -> u64| {
            let sum = |both: &[Usage; 2]| both.iter().map(it).sum::<u64>();
            sum(&after).saturating_sub(sum(&before))
        };
        Ok(LabOperation {
            operation: self.operation,
            count: self.count,
            batches,
            faults: of(|it| it.minor_faults),
            switches: of(|it| it.voluntary_switches + it.involuntary_switches),
        })
    }
}

/// What this process and the children that it has waited for have used.
fn usage() -> io::Result<[Usage; 2]> {
    Ok([used(Whose::Own)?, used(Whose::Children)?])
}
