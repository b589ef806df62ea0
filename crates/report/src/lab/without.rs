//! Why a cell has no result, or no bill, in words.

use punctual_record::lab::{
    FrameFault, GuestFault, GuestProcess, NoBill, NoBound, NoResult, Silence, StreamFault,
};

/// Why a cell has no result, and what to do where that is known.
#[must_use]
pub fn no_result(why: &NoResult) -> String {
    match why {
        NoResult::NotRun => "not run: interrupted".to_owned(),
        NoResult::Interrupted => "interrupted".to_owned(),
        NoResult::Unprepared { error, .. } => error.clone(),
        NoResult::HostLimit { seconds, console } => format!(
            "the guest was stopped after {seconds} s of the host's time (--host-limit); {}",
            shown(console)
        ),
        NoResult::BootLimit {
            seconds,
            silence,
            console,
        } => {
            let within = match silence {
                Silence::Busy => format!("within {seconds} s of processor time"),
                Silence::Halted => format!("and the guest was idle for more than {seconds} s"),
            };
            let console = shown(console);
            format!("the guest's first process did not start {within} (--boot-limit); {console}")
        }
        NoResult::VirtualLimit { seconds, output } => {
            let limit =
                format!("the guest ran out of its {seconds} s of virtual time (--virtual-limit)");
            if output.is_empty() {
                limit
            } else {
                format!("{limit}; end of the program's output: {output}")
            }
        }
        NoResult::Panic { line } => format!("the guest's kernel panicked: {line}"),
        NoResult::Broken {
            stream,
            status,
            output,
            plugin,
            console,
        } => {
            let mut emulator = match status {
                Some(status) => format!("ended with status {status}"),
                None => "was killed".to_owned(),
            };
            if !output.is_empty() {
                emulator += &format!(": {output}");
            }
            if *plugin {
                emulator += " (--no-explain runs without the plugin)";
            }
            format!("{}; QEMU {emulator}; {}", broken(*stream), shown(console))
        }
        NoResult::Guest { fault } => format!("in the guest: {}", guest(fault)),
        NoResult::Inside { status, output } if output.is_empty() => {
            format!("in the guest: exit status {status}")
        }
        NoResult::Inside { status, output } => {
            format!("in the guest: exit status {status}: {output}")
        }
        NoResult::TooLarge { bytes } => {
            format!("cannot read the guest's result: it has {} MiB", bytes >> 20)
        }
        NoResult::NoFrame => {
            "cannot read the guest's result: the frame 'result' is missing".to_owned()
        }
        NoResult::Unreadable { error } => format!("cannot read the guest's result: {error}"),
        NoResult::Earlier { text } => text.clone(),
    }
}

fn shown(console: &str) -> String {
    if console.is_empty() {
        "its console is empty".to_owned()
    } else {
        format!("end of its console: {console}")
    }
}

fn broken(stream: StreamFault) -> String {
    match stream {
        StreamFault::Silent => "the guest's output is empty".to_owned(),
        StreamFault::Cut { bytes } => format!("the guest's output ends after {bytes} bytes"),
        StreamFault::Garbled { at, fault } => {
            let fault = match fault {
                FrameFault::NoHeader => "expected the header of a frame",
                FrameFault::Words => "expected a header of four words",
                FrameFault::Name => "a frame's name is not valid",
                FrameFault::Length => "a frame's length is not a number",
                FrameFault::Checksum => "a frame's checksum is wrong",
                FrameFault::Twice => "two frames have the same name",
                FrameFault::TooMany => "too many frames",
                FrameFault::BytesBehind => "bytes follow the last frame",
            };
            format!("the guest's output is damaged at byte {at}: {fault}")
        }
    }
}

fn guest(fault: &GuestFault) -> String {
    match fault {
        GuestFault::File { path, error } | GuestFault::Job { path, error } => {
            format!("{path}: {error}")
        }
        GuestFault::Module { name, error, log } => {
            let refused = format!("the kernel refused module {name}: {error}");
            if log.is_empty() {
                refused
            } else {
                format!("{refused}; its log: {}", log.join("; "))
            }
        }
        GuestFault::Mount { place, error } => format!("cannot mount {place}: {error}"),
        GuestFault::Start { process, error } => {
            let process = match process {
                GuestProcess::Busy => "the busy process",
                GuestProcess::Loads => "the loads",
                GuestProcess::Program { path } => path,
            };
            format!("cannot start {process}: {error}")
        }
        GuestFault::Loads { output } if output.is_empty() => {
            "the loads failed without a message".to_owned()
        }
        GuestFault::Loads { output } => format!("the loads failed: {output}"),
        GuestFault::Panicked => "the first process panicked; see the console".to_owned(),
    }
}

/// Why the worst wake-up of a guest has no bill.
#[must_use]
pub fn no_bill(why: &NoBill) -> String {
    match why {
        NoBill::OtherResult => "the second run, made to find it, gave another result".to_owned(),
        NoBill::NotTheWorst => "the observer did not keep the worst wake-up".to_owned(),
        NoBill::Symbols { error } => error.clone(),
        NoBill::Threads { threads } => {
            format!("a bill needs exactly one probe thread, the run had {threads}")
        }
        NoBill::TrailUnreadable { error } => format!("the observer's file: {error}"),
        NoBill::TrailTooLarge => "the observer's file is too large".to_owned(),
        NoBill::NoTrail => "the observer's file is missing or has another format".to_owned(),
        NoBill::TrailCut => "the observer's file is truncated".to_owned(),
        NoBill::Stretches { stretches } => {
            format!("the observer's file has {stretches} stretches")
        }
        NoBill::NoMark { mark } => format!("the observer's file has no mark {mark}"),
        NoBill::NoBlock => "the observer's file refers to a missing block".to_owned(),
        NoBill::OtherMarks { marks } => {
            format!("the observer's {marks} marks do not match the wake-ups of this record")
        }
        NoBill::FewMarks { marks, fewest } => format!(
            "it woke {marks} times from a periodic loop of punctual-rt, at least {fewest} \
             wake-ups are needed to find its period"
        ),
        NoBill::NoPeriod => "its wake-ups do not have one period".to_owned(),
        NoBill::SeveralLoops => "it has several periodic loops, and the observer cannot assign \
                                 the wake-ups to them"
            .to_owned(),
        NoBill::Earlier { text } => text.clone(),
    }
}

/// Why a cell has no bound.
#[must_use]
pub fn no_bound(why: &NoBound) -> String {
    match why {
        NoBound::NoProbe => "no probe ran in virtual time".to_owned(),
        NoBound::Threads { threads } => {
            format!("it has {threads} probe threads: a bound is that of one")
        }
        NoBound::Policy => {
            "the probe has no real-time priority, and other threads may run before it: measure \
             with -p 80"
                .to_owned()
        }
        NoBound::Symbols { error } => format!("the kernel's symbols can't be read: {error}"),
        NoBound::NoSymbol { name } => format!("the kernel has no {name}"),
        NoBound::Preemption { model } => {
            format!("when this kernel is preempted is not known: its model is {model}")
        }
        NoBound::Unreadable { error } => format!("the plugin's file can't be read: {error}"),
        NoBound::Damaged { line } => format!("the plugin's file is damaged in line {line}"),
        NoBound::NotUnderstood {
            interrupted_while_disabled,
            flags_popped,
            returned_with_count,
            count_unread,
        } => format!(
            "the kernel does what is not understood: {interrupted_while_disabled} interrupts while \
             they seemed disabled, {flags_popped} times flags set from memory, \
             {returned_with_count} returns to a program that may not be preempted, {count_unread} \
             unread counts of preemption"
        ),
        NoBound::OtherMarks { marks } => format!(
            "the {marks} wake-ups that were seen are not those of the record: measure more, or \
             wait by a timer"
        ),
        NoBound::Exceeded {
            latency_ns,
            bound_ns,
        } => format!(
            "a wake-up took {latency_ns} ns, and the sum of what was measured is {bound_ns} ns: it \
             is not woken by a timer's interrupt alone"
        ),
    }
}
