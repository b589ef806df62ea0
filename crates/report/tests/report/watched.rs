//! Records of watches.

use punctual_record::{Run, analyse_record};

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

/// The program that is watched may bound idle states itself.
#[test]
fn who_holds_cpu_dma_latency_is_said_of_a_watched_program() {
    use punctual_record::system::WatchedLatency;
    use punctual_report::conditions::idle_states;

    let mut run = program();
    run.system.power.cpu_dma_latency_held_us = None;
    assert_eq!(idle_states(&run), "cpu_dma_latency not set by punctual");
    let mut said = |open, in_force_us| {
        run.system.power.cpu_dma_latency_watched = Some(WatchedLatency { open, in_force_us });
        idle_states(&run)
    };
    let program = "cpu_dma_latency held by controller, 0 µs in force";
    assert_eq!(said(true, Some(0)), program);
    assert_eq!(
        said(false, Some(2_000_000_000)),
        "cpu_dma_latency not held by controller"
    );
    assert_eq!(
        said(false, Some(5)),
        "cpu_dma_latency not held by controller; 5 µs in force by another program"
    );
}

#[test]
fn stacks_that_are_less_deep_are_spoken_of() {
    let text = |frames| {
        let what = punctual_record::Happening::OffCpuStacks { frames, wanted: 64 };
        punctual_report::facts::event(&punctual_record::Event::new(0, what), "")
    };
    assert!(text(16).starts_with("--off-cpu: stacks have at most 16 functions: kernel.perf"));
    assert!(text(0).starts_with("--off-cpu: there are no stacks: "));
}
