//! Windows made by hand. Times are relative to the requested instant, in nanoseconds.

use punctual_trace::attribute::event::{Event, Interrupted, Kind, Task, Vector, Window};
use punctual_trace::attribute::{Bill, Cause, Stage, bill};

/// The requested instant.
pub const DUE: u64 = 1_000_000_000;
/// The probe's CPU.
pub const CPU: u32 = 1;

pub fn task(tid: u32, name: &str, priority: i32, policy: u32) -> Task {
    Task {
        tid,
        name: name.to_owned(),
        priority,
        policy,
    }
}

/// SCHED_FIFO 80.
pub fn probe() -> Task {
    task(100, "probe/1", 19, 1)
}

pub fn idle() -> Task {
    task(0, "swapper/1", 120, 0)
}

/// An ordinary thread.
pub fn hog() -> Task {
    task(200, "stress-ng", 120, 0)
}

pub struct Made {
    pub window: Window,
    cpu: u32,
}

/// A window that begins when the probe goes to sleep, 500 µs before it is due, and
/// `then` runs. The probe's latency is `latency`.
pub fn asleep(then: &Task, latency: u64) -> Made {
    let window = Window {
        cpu: CPU,
        probe: probe(),
        waiting_ns: DUE - 501_000,
        due_ns: DUE,
        woken_ns: DUE + latency,
        lost: 0,
        preempt_rt: false,
        limits: Vec::new(),
        stalls: Vec::new(),
        cut: false,
        left: None,
        gap: false,
        job: false,
        events: Vec::new(),
        symbols: [
            (0xa0, "tick_nohz_handler".to_owned()),
            (0xb0, "_raw_spin_unlock_irqrestore+0x15".to_owned()),
            (0xc0, "free_pcppages_bulk+0x1a".to_owned()),
            (0xc1, "exit_mmap+0x2f0".to_owned()),
            (0xd0, "do_flush_tlb_all".to_owned()),
            (0xe0, "vmstat_update".to_owned()),
            (0xf0, "mmap_lock".to_owned()),
            (0x99, "hrtimer_wakeup".to_owned()),
        ]
        .into(),
        origins: [].into(),
    };
    let mut made = Made { window, cpu: CPU };
    made.leaves(-500_000, &probe(), 1, then);
    made
}

impl Made {
    /// The following events happen on another CPU.
    pub fn on(&mut self, cpu: u32) -> &mut Self {
        self.cpu = cpu;
        self
    }

    pub fn at(&mut self, at: i64, kind: Kind) -> &mut Self {
        self.window.events.push(Event {
            at_ns: DUE.checked_add_signed(at).unwrap(),
            cpu: self.cpu,
            kind,
        });
        self
    }

    pub fn leaves(&mut self, at: i64, from: &Task, state: u64, to: &Task) -> &mut Self {
        self.at(
            at,
            Kind::Switch {
                from: from.clone(),
                from_state: state,
                preempted: state == 0,
                to: to.clone(),
            },
        )
    }

    pub fn switch(&mut self, at: i64, from: &Task, to: &Task) -> &mut Self {
        self.leaves(at, from, 0, to)
    }

    pub fn irq(&mut self, at: i64, vector: Vector) -> &mut Self {
        self.at(
            at,
            Kind::VectorEntry {
                vector,
                interrupted: None,
            },
        )
    }

    pub fn irq_exit(&mut self, at: i64, vector: Vector) -> &mut Self {
        self.at(at, Kind::VectorExit { vector })
    }

    /// The timer's interrupt, from `from` to `to`; the probe's callback and its
    /// waking follow 1,000 ns and 1,300 ns after its start.
    pub fn timer(&mut self, from: i64, to: i64, interrupted: Option<Interrupted>) -> &mut Self {
        let vector = Vector::LocalTimer;
        self.at(
            from,
            Kind::VectorEntry {
                vector,
                interrupted,
            },
        )
        .callback(from + 1_000)
        .at(from + 1_300, Kind::Waking { tid: 100, by: None })
        .irq_exit(to, vector)
    }

    /// A function that another CPU requested interrupts the hog, from before the probe is due until
    /// 16.4 µs before it runs again.
    pub fn called(&mut self) -> &mut Self {
        self.irq(-10_000, Vector::CallFunctionSingle)
            .at(
                -9_500,
                Kind::CallEntry {
                    function: 0xd0,
                    request: 0xe1,
                },
            )
            .at(583_600, Kind::CallExit { function: 0xd0 })
            .irq_exit(584_000, Vector::CallFunctionSingle)
            .timer(584_200, 587_000, KERNEL)
            .switch(590_000, &hog(), &probe())
    }

    pub fn callback(&mut self, at: i64) -> &mut Self {
        self.at(
            at,
            Kind::TimerExpire {
                timer: 0x77,
                function: 0x99,
                expires_ns: DUE,
                of_probe: true,
            },
        )
    }

    pub fn bill(&self) -> Bill {
        let bill = bill(&self.window);
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns, "{bill:#?}");
        assert_eq!(bill.stages.total_ns(), bill.latency_ns, "{bill:#?}");
        for stage in Stage::ALL {
            let rows = bill.rows.iter().filter(|row| row.stage == stage);
            let sum: u64 = rows.map(|row| row.ns).sum();
            assert_eq!(
                sum,
                bill.stages.get(stage).unwrap_or(0),
                "{stage:?} {bill:#?}"
            );
        }
        bill
    }

    /// The rows of the bill.
    pub fn rows(&self) -> Vec<(Stage, Cause, u64)> {
        let rows = self.bill().rows.into_iter();
        rows.map(|row| (row.stage, row.cause, row.ns)).collect()
    }
}

/// The timer interrupted a program.
pub const USER: Option<Interrupted> = Some(Interrupted {
    address: 0x40_0000,
    user: true,
    preempt_count: 0,
});

/// The timer interrupted the kernel where it enables interrupts again.
pub const KERNEL: Option<Interrupted> = Some(Interrupted {
    address: 0xb0,
    user: false,
    preempt_count: 1,
});
