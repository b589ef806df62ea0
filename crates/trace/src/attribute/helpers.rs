//! Threads that execute a part of a job while the job's own thread waits for them: what they do, the job
//! does.

use std::collections::BTreeMap;

use super::event::{Kind, Task, Window};

/// What a thread of the job does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Asleep,
    Ready,
    Running,
}

impl Window {
    /// Counts what helpers of the probe do as the probe's own: they become one thread, which runs when one of
    /// them does, and is ready when one of them is.
    pub fn count_helpers_in(&mut self, helpers: &[u32]) {
        if helpers.is_empty() {
            return;
        }
        let probe = self.probe.clone();
        let is_own = |tid: u32| tid == probe.tid || helpers.contains(&tid);
        let as_own = |task: &mut Task| {
            if is_own(task.tid) {
                *task = probe.clone();
            }
        };
        let mut states = BTreeMap::from([(probe.tid, State::Running)]);
        self.events.sort_by_key(|event| event.at_ns);
        self.events.retain_mut(|event| match &mut event.kind {
            Kind::Waking { tid, by } => {
                let inner = by.as_ref().is_some_and(|by| is_own(by.tid));
                if let Some(by) = by {
                    as_own(by);
                }
                if !is_own(*tid) {
                    return true;
                }
                let state = states.entry(*tid).or_insert(State::Asleep);
                if *state == State::Asleep {
                    *state = State::Ready;
                }
                *tid = probe.tid;
                !inner
            }
            Kind::Switch {
                from,
                from_state,
                preempted,
                to,
            } => {
                let (leaves, comes) = (is_own(from.tid), is_own(to.tid));
                if leaves {
                    let state = match *from_state == 0 || *preempted {
                        true => State::Ready,
                        false => State::Asleep,
                    };
                    states.insert(from.tid, state);
                }
                if comes {
                    states.insert(to.tid, State::Running);
                }
                // Another of them goes on, on another CPU.
                if leaves && !comes && states.values().any(|state| *state == State::Running) {
                    return false;
                }
                as_own(from);
                as_own(to);
                if leaves && !comes && states.values().any(|state| *state == State::Ready) {
                    *from_state = 0;
                }
                !(leaves && comes)
            }
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Event;
    use super::*;

    fn task(tid: u32) -> Task {
        Task {
            tid,
            name: format!("t{tid}"),
            priority: 39,
            policy: 1,
        }
    }

    fn event(at_ns: u64, kind: Kind) -> Event {
        Event {
            at_ns,
            cpu: 0,
            kind,
        }
    }

    fn switch(from: u32, from_state: u64, to: u32) -> Kind {
        Kind::Switch {
            from: task(from),
            from_state,
            preempted: from_state == 0,
            to: task(to),
        }
    }

    fn waking(tid: u32, by: u32) -> Kind {
        Kind::Waking {
            tid,
            by: Some(task(by)),
        }
    }

    /// The job of 7 asks 8, which 9 preempts; 8 answers, and 9 comes between before 7 goes on.
    #[test]
    fn a_helper_that_is_asked_works_for_the_job() {
        let mut window = Window {
            cpu: 0,
            probe: task(7),
            waiting_ns: 0,
            due_ns: 0,
            woken_ns: 100,
            lost: 0,
            preempt_rt: false,
            gap: false,
            job: true,
            cut: false,
            left: None,
            limits: Vec::new(),
            stalls: Vec::new(),
            events: vec![
                event(10, waking(8, 7)),
                event(20, switch(7, 1, 8)),
                event(30, switch(8, 0, 9)),
                event(40, switch(9, 1, 8)),
                event(50, waking(7, 8)),
                event(60, switch(8, 1, 9)),
                event(70, switch(9, 1, 7)),
                event(80, waking(11, 7)),
            ],
            symbols: BTreeMap::new(),
            origins: BTreeMap::new(),
        };
        window.count_helpers_in(&[8]);
        let expected = vec![
            event(30, switch(7, 0, 9)),
            event(40, switch(9, 1, 7)),
            event(
                60,
                Kind::Switch {
                    from: task(7),
                    from_state: 0,
                    preempted: false,
                    to: task(9),
                },
            ),
            event(70, switch(9, 1, 7)),
            event(80, waking(11, 7)),
        ];
        assert_eq!(window.events, expected);
        let before = window.events.clone();
        window.count_helpers_in(&[]);
        assert_eq!(window.events, before);
    }
}
