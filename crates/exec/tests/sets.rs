//! Whole sets, executed for a short time.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use punctual_exec::{
    Call, Calls, End, Ended, Fault, Job, Outcome, Passed, Ready, Sink, Speed, Unended, prepare,
};
use punctual_record::taskset::{
    Chain, Lock, LockProtocol, Means, Phase, Step, Task, TaskPolicy, TaskSet, Timer, Wake,
};
use punctual_rt::clock;
use punctual_rt::thread::StartLine;

const MS: u64 = 1_000_000;
const SPEED: Speed = Speed {
    turns: 1000,
    ns: 1000,
    spread: 0.0,
};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Found>>);

#[derive(Default)]
struct Found {
    jobs: Vec<Job>,
    passed: Vec<Passed>,
    dropped: u64,
}

impl Sink for Seen {
    fn job(&mut self, job: Job) {
        self.0.lock().unwrap().jobs.push(job);
    }

    fn dropped(&mut self, _: u64, jobs: u64) {
        self.0.lock().unwrap().dropped += jobs;
    }

    fn passed(&mut self, passed: Passed) {
        self.0.lock().unwrap().passed.push(passed);
    }
}

/// Fails at its second call.
struct Failing(u32);

impl Call for Failing {
    fn call(&mut self) -> io::Result<()> {
        self.0 += 1;
        match self.0 {
            2 => Err(io::Error::other("second")),
            _ => Ok(()),
        }
    }
}

struct Functions;

impl Calls for Functions {
    fn find(&mut self, _: &Path, _: &str) -> io::Result<Box<dyn Call>> {
        Ok(Box::new(Failing(0)))
    }
}

fn task(name: &str, wake: Wake, work: Vec<Step>) -> Task {
    Task {
        name: name.to_owned(),
        policy: TaskPolicy::Other { nice: 0 },
        cpus: Vec::new(),
        wake,
        deadline_ns: 3_600_000 * MS,
        jitter_ns: 0,
        execution_ns: None,
        phases: vec![phase(1, work)],
    }
}

fn phase(jobs: u64, work: Vec<Step>) -> Phase {
    Phase {
        jobs,
        period_ns: None,
        deadline_ns: None,
        work,
    }
}

fn timer(timer: Timer, period_ns: u64) -> Wake {
    Wake::Timer {
        timer,
        period_ns,
        offset_ns: 0,
    }
}

fn after(task: usize, every: u32, means: Means) -> Wake {
    Wake::After { task, every, means }
}

struct Executed {
    start_ns: u64,
    /// As it was when the set was to end.
    unended: Vec<Option<Unended>>,
    seen: Vec<Seen>,
    outcomes: Vec<Option<Outcome>>,
}

impl Executed {
    fn jobs(&self, task: usize) -> Vec<Job> {
        self.seen[task].0.lock().unwrap().jobs.clone()
    }

    fn dropped(&self, task: usize) -> u64 {
        self.seen[task].0.lock().unwrap().dropped
    }

    fn passed(&self, task: usize) -> Vec<Passed> {
        self.seen[task].0.lock().unwrap().passed.clone()
    }
}

/// Executes a set for a time.
fn execute(set: &TaskSet, length_ns: u64) -> Executed {
    execute_and_end(set, length_ns, length_ns)
}

/// Executes a set for a time, and ends it after another one, which may be shorter.
fn execute_and_end(set: &TaskSet, length_ns: u64, ended_after_ns: u64) -> Executed {
    let speeds = vec![SPEED; set.tasks.len()];
    let prepared = prepare(set, &speeds, &mut Functions).unwrap();
    let (line, end) = (Arc::<StartLine>::default(), Arc::<End>::default());
    let (tell, told) = mpsc::channel();
    let mut seen: Vec<Seen> = Vec::new();
    let running = prepared
        .start(&line, &end, &tell, |_| {
            let sink = Seen::default();
            seen.push(sink.clone());
            sink
        })
        .unwrap();
    for _ in &set.tasks {
        let ready: Ready = told.recv().unwrap();
        assert!(
            ready.refused.is_empty() && ready.fault.is_none(),
            "{ready:?}"
        );
    }
    let start_ns = clock::now_ns() + 5 * MS;
    end.set(start_ns + length_ns);
    line.go(start_ns);
    let patience = Instant::now() + Duration::from_secs(60);
    let mut unended = None;
    while !running.is_over() && Instant::now() < patience {
        if clock::now_ns() >= start_ns.saturating_add(ended_after_ns) {
            end.now();
            unended.get_or_insert_with(|| running.unended());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Executed {
        start_ns,
        unended: unended.unwrap_or_default(),
        seen,
        outcomes: running.finish(),
    }
}

#[test]
fn every_timer_keeps_its_grid_and_no_job_is_left_out() {
    for kind in [Timer::Absolute, Timer::Timerfd, Timer::Signal] {
        let mut set = TaskSet {
            tasks: vec![task("t", timer(kind, 2 * MS), vec![Step::Run { ns: 1000 }])],
            ..TaskSet::default()
        };
        set.tasks[0].phases[0].jobs = 3;
        let done = execute(&set, 40 * MS);
        let jobs = done.jobs(0);
        assert_eq!(jobs.len(), 20, "{kind:?}");
        for (index, job) in jobs.iter().enumerate() {
            assert_eq!(job.arrival_ns, done.start_ns + index as u64 * 2 * MS);
            assert_eq!((job.released_ns, job.skipped), (job.arrival_ns, 0));
            assert!(job.started_ns >= job.released_ns && job.ended_ns >= job.started_ns);
        }
        let outcome = done.outcomes[0].as_ref().unwrap();
        assert!(matches!(outcome.ended, Ended::Completed) && outcome.jobs == 20);
    }
}

#[test]
fn the_jobs_of_a_phase_with_a_longer_deadline_say_how_much_longer() {
    let mut set = TaskSet {
        tasks: vec![task("t", timer(Timer::Absolute, 2 * MS), Vec::new())],
        ..TaskSet::default()
    };
    set.tasks[0].phases = vec![
        phase(3, Vec::new()),
        phase(2, vec![Step::Sleep { ns: 3 * MS }]),
    ];
    set.tasks[0].phases[1].period_ns = Some(5 * MS);
    set.tasks[0].end_before_next_arrival(2 * MS);
    let done = execute(&set, 160 * MS);
    // Ten rounds of 16 ms; where the machine took so long that jobs were left out, their time has passed.
    let mut jobs = [(2 * MS, 0); 3]
        .into_iter()
        .chain([(5 * MS, 3 * MS); 2])
        .cycle();
    let mut at_ns = done.start_ns;
    for job in done.jobs(0) {
        let (period_ns, more_ns) = jobs.next().unwrap();
        assert_eq!((job.arrival_ns, job.more_ns), (at_ns, more_ns));
        let skipped = jobs.by_ref().take(job.skipped as usize);
        at_ns += period_ns + skipped.map(|(period_ns, _)| period_ns).sum::<u64>();
    }
}

#[test]
fn jobs_that_are_left_out_count_in_their_own_phases() {
    // One job of 47 ms in a phase of one period of 10 ms; those of the other phases, which were due meanwhile.
    let mut set = TaskSet {
        tasks: vec![task("t", timer(Timer::Absolute, 2 * MS), Vec::new())],
        ..TaskSet::default()
    };
    set.tasks[0].phases = vec![
        phase(1, vec![Step::Sleep { ns: 47 * MS }]),
        phase(10, Vec::new()),
        phase(4, Vec::new()),
    ];
    set.tasks[0].phases[0].period_ns = Some(10 * MS);
    set.tasks[0].phases[2].period_ns = Some(30 * MS);
    set.tasks[0].end_before_next_arrival(2 * MS);
    let done = execute(&set, 150 * MS);
    // Arrivals: 0; from 10 each 2 ms; from 30 each 30 ms; at 150 the end.
    let first = done.jobs(0)[0];
    let took_ns = first.ended_ns - done.start_ns;
    let deadlines = (0..10)
        .map(|job| (12 + 2 * job) * MS)
        .chain([60 * MS, 90 * MS, 120 * MS]);
    let passed = deadlines.filter(|deadline| took_ns > *deadline).count() as u64;
    assert!(passed >= 10, "{took_ns}");
    assert_eq!(first.skipped, passed);
    let all: u64 = done.jobs(0).iter().map(|job| 1 + job.skipped).sum();
    assert_eq!(all, 15);
}

#[test]
fn a_relative_timer_counts_from_the_end_of_each_job() {
    let set = TaskSet {
        tasks: vec![task(
            "t",
            timer(Timer::Relative, 2 * MS),
            vec![Step::Sleep { ns: MS }],
        )],
        ..TaskSet::default()
    };
    let jobs = execute(&set, 30 * MS).jobs(0);
    assert!((2..=10).contains(&jobs.len()), "{}", jobs.len());
    for pair in jobs.windows(2) {
        assert!(pair[1].arrival_ns >= pair[0].ended_ns + 2 * MS);
    }
}

#[test]
fn each_means_releases_each_of_its_jobs_and_ends_what_it_releases() {
    let all = [
        Means::Futex,
        Means::Semaphore,
        Means::Condvar,
        Means::Signal,
        Means::Eventfd,
        Means::Mqueue,
        Means::Pipe,
        Means::Socket,
    ];
    let mut tasks = vec![task("beat", timer(Timer::Absolute, 5 * MS), vec![])];
    tasks.extend(all.map(|means| task(&format!("{means:?}"), after(0, 1, means), vec![])));
    tasks.push(task("fourth", after(0, 4, Means::Futex), vec![]));
    tasks.push(task("eighth", after(all.len() + 1, 2, Means::Pipe), vec![]));
    let set = TaskSet {
        tasks,
        ..TaskSet::default()
    };
    let done = execute(&set, 200 * MS);
    let beats = done.jobs(0);
    assert_eq!(beats.len(), 40);
    for index in 1..=all.len() {
        let jobs = done.jobs(index);
        let dropped = done.dropped(index);
        assert_eq!(jobs.len() as u64 + dropped, 40, "{}", set.tasks[index].name);
        for job in &jobs {
            let beat = beats
                .iter()
                .find(|beat| beat.arrival_ns == job.arrival_ns)
                .unwrap();
            assert!(job.released_ns >= beat.ended_ns && job.started_ns >= job.released_ns);
        }
    }
    assert_eq!(done.jobs(all.len() + 1).len(), 10);
    let eighth: Vec<u64> = done
        .jobs(all.len() + 2)
        .iter()
        .map(|job| job.arrival_ns)
        .collect();
    let expected: Vec<u64> = beats
        .iter()
        .skip(7)
        .step_by(8)
        .map(|beat| beat.arrival_ns)
        .collect();
    assert_eq!(eighth, expected);
    assert!(done.outcomes.iter().all(|outcome| {
        let ended = &outcome.as_ref().unwrap().ended;
        matches!(ended, Ended::Completed)
    }));
}

#[test]
fn releases_that_find_no_place_are_dropped_jobs() {
    for (means, most) in [(Means::Pipe, 9), (Means::Mqueue, 9), (Means::Socket, 9)] {
        // The first job takes longer than all releases.
        let mut slow = task("slow", after(0, 1, means), vec![]);
        slow.phases = vec![
            phase(1, vec![Step::Sleep { ns: 200 * MS }]),
            phase(100, vec![]),
        ];
        let beat = task("beat", timer(Timer::Absolute, 2 * MS), vec![]);
        let set = TaskSet {
            tasks: vec![beat, slow],
            ..TaskSet::default()
        };
        let done = execute(&set, 60 * MS);
        let jobs = done.jobs(1).len() as u64;
        assert_eq!((jobs, done.dropped(1)), (1 + most, 29 - most), "{means:?}");
        let outcome = done.outcomes[1].as_ref().unwrap();
        assert_eq!((outcome.jobs, outcome.dropped), (jobs, 29 - most));
        assert_eq!(u64::from(outcome.most_pending), most);
    }
}

#[test]
fn a_backlog_of_an_overloaded_task_ends_with_its_set() {
    // 100 releases of jobs of 50 ms: what is left of them would take 5 s.
    let beat = task("beat", timer(Timer::Absolute, 2 * MS), vec![]);
    let work = vec![Step::Sleep { ns: 50 * MS }];
    let mut slow = task("slow", after(0, 1, Means::Futex), work);
    slow.deadline_ns = 20 * MS;
    let set = TaskSet {
        tasks: vec![beat, slow],
        ..TaskSet::default()
    };
    let done = execute(&set, 200 * MS);
    let jobs = done.jobs(1);
    // What arrived before the last job of the set's time had ended was late by then.
    let end_ns = done.start_ns + 200 * MS;
    let after_end = jobs.iter().filter(|job| job.started_ns >= end_ns).count();
    assert!(after_end <= 1, "{after_end}: {jobs:?}");
    assert_eq!(jobs.len() as u64 + done.dropped(1), 100);
    let outcome = done.outcomes[1].as_ref().unwrap();
    assert!(matches!(outcome.ended, Ended::Completed));
    assert_eq!((outcome.jobs, outcome.dropped), (jobs.len() as u64, 0));
}

#[test]
fn a_set_that_is_ended_early_does_not_wait_for_jobs_that_will_not_arrive() {
    const HOUR: u64 = 3_600_000 * MS;
    let timers = [
        Timer::Absolute,
        Timer::Relative,
        Timer::Timerfd,
        Timer::Signal,
    ];
    let mut tasks: Vec<Task> = timers
        .iter()
        .map(|kind| task(&format!("{kind:?}"), timer(*kind, HOUR / 2), vec![]))
        .collect();
    tasks.push(task("after", after(0, 1, Means::Futex), vec![]));
    // The job that is under way is executed to its end.
    let long = vec![Step::Sleep { ns: 2_000 * MS }];
    tasks.push(task("long", timer(Timer::Absolute, HOUR / 2), long));
    let set = TaskSet {
        tasks,
        ..TaskSet::default()
    };
    let begun = Instant::now();
    let done = execute_and_end(&set, HOUR, 50 * MS);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    for (index, outcome) in done.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().unwrap();
        assert!(matches!(outcome.ended, Ended::Completed), "{index}");
        assert_eq!((outcome.jobs, done.jobs(index).len()), (1, 1), "{index}");
    }
    let long = done.jobs(5)[0];
    assert!(long.ended_ns >= long.started_ns + 2_000 * MS);
    // That one had not ended; what another task releases had nothing to do.
    let unended = |arrival_ns| {
        Some(Unended {
            arrival_ns,
            due_ns: arrival_ns + set.tasks[5].deadline_ns,
        })
    };
    assert_eq!(done.unended[5], unended(done.start_ns));
    assert_eq!(done.unended[4], None);
}

#[test]
fn jobs_whose_deadline_has_passed_are_skipped_and_counted() {
    // One job of 25 ms, then jobs without work: deadlines of the arrivals at 5 and 10 ms pass.
    let mut overrunning = task("t", timer(Timer::Absolute, 5 * MS), vec![]);
    overrunning.deadline_ns = 10 * MS;
    overrunning.phases = vec![
        phase(1, vec![Step::Sleep { ns: 25 * MS }]),
        phase(100, vec![]),
    ];
    let set = TaskSet {
        tasks: vec![overrunning],
        ..TaskSet::default()
    };
    let done = execute(&set, 60 * MS);
    let jobs = done.jobs(0);
    let skipped: u64 = jobs.iter().map(|job| job.skipped).sum();
    assert_eq!(
        jobs.len() as u64 + skipped,
        12,
        "each arrival is a job or was skipped"
    );
    let (first, second) = (jobs[0], jobs[1]);
    let gone = (first.ended_ns - 10 * MS - done.start_ns - 5 * MS).div_ceil(5 * MS);
    assert_eq!(first.skipped, gone);
    assert!(first.skipped >= 2);
    assert_eq!(
        second.arrival_ns,
        done.start_ns + (first.skipped + 1) * 5 * MS
    );
    assert!(second.started_ns >= first.ended_ns);
}

#[test]
fn a_chain_passes_on_where_each_value_came_from() {
    // Sampled, then triggered: the fast task reads what the slow one put out last.
    let tasks = vec![
        task("sensor", timer(Timer::Absolute, 2 * MS), vec![]),
        task("filter", timer(Timer::Absolute, 7 * MS), vec![]),
        task("actuator", after(1, 1, Means::Futex), vec![]),
    ];
    let set = TaskSet {
        tasks,
        chains: vec![Chain {
            name: "c".to_owned(),
            tasks: vec![0, 1, 2],
            reaction_ns: None,
            age_ns: None,
        }],
        ..TaskSet::default()
    };
    let done = execute(&set, 100 * MS);
    let (sensor, filter, actuator) = (done.jobs(0), done.jobs(1), done.jobs(2));
    let passed = done.passed(2);
    // The first job of the filter may come before the first of the sensor.
    assert!(passed.len() + 1 >= actuator.len() && passed.len() <= actuator.len());
    for out in &passed {
        let end = actuator
            .iter()
            .find(|job| job.ended_ns == out.out_ns)
            .unwrap();
        let by = filter
            .iter()
            .find(|job| job.arrival_ns == end.arrival_ns)
            .unwrap();
        let from = &sensor[out.origin.job as usize];
        assert_eq!(
            (from.arrival_ns, from.started_ns),
            (out.origin.arrival_ns, out.origin.read_ns)
        );
        // It was there when the filter began, and no job that ended long before was newer.
        assert!(from.ended_ns <= by.ended_ns);
        let newer = sensor.get(out.origin.job as usize + 1);
        assert!(newer.is_none_or(|newer| newer.ended_ns + MS / 2 > by.started_ns));
    }
}

#[test]
fn jobs_are_released_within_their_jitter() {
    let mut jittery = task("t", timer(Timer::Absolute, 2 * MS), vec![]);
    jittery.jitter_ns = MS;
    let set = TaskSet {
        tasks: vec![jittery],
        ..TaskSet::default()
    };
    let late: Vec<u64> = execute(&set, 200 * MS)
        .jobs(0)
        .iter()
        .map(|job| job.released_ns - job.arrival_ns)
        .collect();
    assert_eq!(late.len(), 100);
    assert!(late.iter().all(|late| *late <= MS));
    let mean = late.iter().sum::<u64>() / 100;
    assert!((300_000..700_000).contains(&mean), "{mean}");
}

#[test]
fn jobs_that_others_release_have_their_jitter_too() {
    let beat = task("beat", timer(Timer::Absolute, 5 * MS), vec![]);
    let mut jittery = task("t", after(0, 1, Means::Futex), vec![]);
    jittery.jitter_ns = MS;
    let set = TaskSet {
        tasks: vec![beat, jittery],
        ..TaskSet::default()
    };
    let done = execute(&set, 400 * MS);
    let (beats, jobs) = (done.jobs(0), done.jobs(1));
    let mut late = Vec::new();
    for job in &jobs {
        let of = |beat: &&Job| beat.arrival_ns == job.arrival_ns;
        let beat = beats.iter().find(of).unwrap();
        late.push(job.released_ns - beat.ended_ns);
        assert!(job.started_ns >= job.released_ns);
    }
    assert_eq!(late.len(), beats.len());
    assert!(late.iter().all(|late| *late <= MS), "{late:?}");
    let some = late.iter().filter(|late| **late > MS / 4).count();
    assert!(some > late.len() / 2, "{late:?}");
}

#[test]
fn a_step_that_fails_ends_the_set_and_is_named() {
    let library = Step::Library {
        path: "x.so".into(),
        function: "step".to_owned(),
    };
    let lock = Step::Lock {
        lock: 0,
        work: vec![library],
    };
    let set = TaskSet {
        tasks: vec![
            task("t", timer(Timer::Absolute, MS), vec![lock]),
            task("u", timer(Timer::Absolute, MS), vec![]),
            task("v", after(0, 1, Means::Pipe), vec![]),
        ],
        locks: vec![Lock {
            name: "m".to_owned(),
            protocol: LockProtocol::Inherit,
        }],
        ..TaskSet::default()
    };
    let done = execute(&set, 3_600_000 * MS);
    let ended = |task: usize| &done.outcomes[task].as_ref().unwrap().ended;
    match ended(0) {
        Ended::Failed(Fault::Step(0, refused)) => {
            assert_eq!(
                (refused.step, refused.error.to_string().as_str()),
                (1, "second")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(ended(1), Ended::Completed) && matches!(ended(2), Ended::Completed));
    assert_eq!((done.jobs(0).len(), done.jobs(2).len()), (1, 1));
}
