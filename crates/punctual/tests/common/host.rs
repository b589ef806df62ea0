//! How long a CPU was not this machine's: a virtual machine's host takes it now and then.

use std::fs;
use std::time::{Duration, Instant};

/// A tick of the accounts in /proc/stat.
const TICK: Duration = Duration::from_millis(10);

/// The accounts of a CPU at an instant.
pub struct HostTime {
    cpu: usize,
    begun: Instant,
    accounts: Accounts,
}

#[derive(Debug, Clone, Copy)]
struct Accounts {
    /// Everything that was accounted, in ticks.
    all: u32,
    stolen: u32,
}

fn accounts(cpu: usize) -> Accounts {
    let text = fs::read_to_string("/proc/stat").expect("the accounts");
    let name = format!("cpu{cpu} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    let numbers = line.expect("the CPU").split_whitespace();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user and nice.
    let numbers = numbers.take(8).map(|it| it.parse().expect("a number"));
    let ticks: Vec<u32> = numbers.collect();
    Accounts {
        all: ticks.iter().sum(),
        stolen: ticks[7],
    }
}

impl HostTime {
    /// From now on.
    pub fn of(cpu: usize) -> Self {
        Self {
            cpu,
            begun: Instant::now(),
            accounts: accounts(cpu),
        }
    }

    /// How much of the time since then the CPU lacked at most: what the host says that it took, and
    /// what is in no account. There is no tick while the host has the CPU.
    pub fn taken(&self) -> Duration {
        let now = accounts(self.cpu);
        let accounted = TICK * (now.all - self.accounts.all);
        let lacking = self.begun.elapsed().saturating_sub(accounted);
        // Both readings may be up to a tick old.
        TICK * (now.stolen - self.accounts.stolen) + lacking.saturating_sub(TICK * 2)
    }
}
