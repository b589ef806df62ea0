//! Records of watches.

use punctual::record::{Run, analyse_record};

/// A program that was watched.
pub fn program() -> Run {
    let mut run = super::fixtures::good();
    run.verb = "watch".to_owned();
    run.watch = Some(super::watches::program("controller", run.threads.len()));
    run
}

/// A system that was watched, with names that want to be markup.
pub fn hostile() -> Run {
    let evil = "x'; reboot; </svg><script>alert(1)</script>\u{1b}[31m";
    let mut run = super::fixtures::hostile();
    run.watch = Some(super::watches::program(evil, run.threads.len()));
    if let Some(watch) = &mut run.watch {
        watch.worst = super::watches::system(evil).worst;
        watch.cost = super::watches::system(evil).cost;
    }
    // What was required of its marks bears their names.
    run.verdict = analyse_record(&run).ok().map(|analysis| analysis.verdict);
    run
}
