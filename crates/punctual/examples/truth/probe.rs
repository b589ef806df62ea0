//! The probe: a process of its own, so that it can be stopped, whose samples are in shared
//! memory. In every so many-th cycle it disturbs itself like a badly written program.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::{task, time};
use punctual_rt::{affinity, clock};

pub const PRIORITY: u32 = 80;
/// Bytes of fresh memory that it touches, page by page.
const FRESH: usize = 4 << 20;
const PAGE: usize = 4096;
const SAMPLES: usize = 1 << 17;

/// How the probe disturbs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    None = 0,
    /// It touches memory that isn't present.
    Faults = 1,
    /// It takes the lock.
    Locks = 2,
}

/// When it wakes up, and when a culprit is in its way.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    pub cpu: usize,
    pub start_ns: u64,
    pub period_ns: u64,
    /// Every so many-th wake-up is disturbed.
    pub every: u64,
    /// For how long.
    pub length_ns: u64,
}

impl Beat {
    /// The next wake-up to disturb, from an instant on.
    pub fn next(&self, from_ns: u64) -> u64 {
        let each = self.every * self.period_ns;
        let passed = from_ns.saturating_sub(self.start_ns) / each;
        self.start_ns + (passed + 1) * each
    }

    fn is_disturbed(&self, due_ns: u64) -> bool {
        let since = due_ns - self.start_ns;
        since > 0 && since.is_multiple_of(self.every * self.period_ns)
    }
}

/// One wake-up; the last two are when the probe began and ended to delay itself.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub due_ns: u64,
    pub woken_ns: u64,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Memory that both processes share.
#[repr(C)]
pub struct Shared {
    ready: AtomicU32,
    over: AtomicU32,
    habit: AtomicU32,
    count: AtomicU64,
    lock: libc::pthread_mutex_t,
    samples: [[AtomicU64; 4]; SAMPLES],
}

pub struct Probe {
    shared: &'static Shared,
    pub pid: i32,
    read: usize,
}

impl Probe {
    /// Starts it.
    pub fn start(beat: Beat) -> Result<Self, String> {
        let (read_write, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
        );
        let size = size_of::<Shared>();
        // SAFETY: a new mapping overlaps no existing one.
        let place = unsafe { libc::mmap(null_mut(), size, read_write, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err("no memory".to_owned());
        }
        // SAFETY: the mapping is as large as the structure, page-aligned, never unmapped, and
        // zeroes are a value of each of its parts.
        let shared: &'static Shared = unsafe { &*place.cast::<Shared>() };
        make_lock(shared);
        // SAFETY: this process has only one thread yet, so the child may call any function.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err("no process".to_owned()),
            0 => child(shared, beat),
            _ => {}
        }
        let probe = Self {
            shared,
            pid,
            read: 0,
        };
        while shared.ready.load(Ordering::Acquire) == 0 {
            let mut status = 0;
            // SAFETY: waitpid writes to `status`, which outlives the call.
            if unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } != 0 {
                return Err("no real-time priority".to_owned());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(probe)
    }

    /// Makes it an ordinary thread with this nice value, or a real-time thread again.
    pub fn be_ordinary(&self, ordinary: bool, nice: i32) -> Result<(), String> {
        let policy = if ordinary {
            Policy::Other
        } else {
            Policy::Fifo(PRIORITY)
        };
        let failed = |error| format!("the probe's policy: {error}");
        sched::set(self.pid, policy).map_err(failed)?;
        // SAFETY: setpriority takes no pointer; the child has not been reaped, so the number is its
        // own.
        let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, self.pid.unsigned_abs(), nice) };
        (done == 0)
            .then_some(())
            .ok_or_else(|| failed(std::io::Error::last_os_error()))
    }

    /// Sets how it disturbs itself from now on.
    pub fn take_up(&self, habit: Habit) {
        self.shared.habit.store(habit as u32, Ordering::Relaxed);
    }

    /// The samples since the last call.
    pub fn samples(&mut self) -> Vec<Sample> {
        let count = self.shared.count.load(Ordering::Acquire) as usize;
        let fresh = self.shared.samples[self.read..count].iter().map(|words| {
            let word = |index: usize| words[index].load(Ordering::Relaxed);
            Sample {
                due_ns: word(0),
                woken_ns: word(1),
                from_ns: word(2),
                to_ns: word(3),
            }
        });
        let fresh = fresh.collect();
        self.read = count;
        fresh
    }

    /// The probe's lock.
    pub fn lock(&self) -> Lock {
        Lock(self.shared)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.over.store(1, Ordering::Relaxed);
        let mut status = 0;
        // SAFETY: kill takes two integers; our child has not been reaped.
        unsafe { libc::kill(self.pid, libc::SIGCONT) };
        // SAFETY: waitpid writes to `status`, which outlives the call.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
    }
}

/// The lock that probe and culprit share.
#[derive(Clone, Copy)]
pub struct Lock(&'static Shared);

impl Lock {
    pub fn with<T>(self, work: impl FnOnce() -> T) -> T {
        let lock = (&raw const self.0.lock).cast_mut();
        // SAFETY: the lock was initialised before the fork, and is never unmapped.
        unsafe { libc::pthread_mutex_lock(lock) };
        let done = work();
        // SAFETY: this thread has locked it.
        unsafe { libc::pthread_mutex_unlock(lock) };
        done
    }
}

fn make_lock(shared: &Shared) {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let lock = (&raw const shared.lock).cast_mut();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are not initialised yet.
    unsafe { libc::pthread_mutexattr_init(attributes) };
    // SAFETY: the attributes are initialised.
    unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) };
    // SAFETY: no other thread uses the lock yet.
    unsafe { libc::pthread_mutex_init(lock, attributes) };
}

fn child(shared: &'static Shared, beat: Beat) -> ! {
    let set = || -> std::io::Result<()> {
        // SAFETY: prctl takes integers here.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        task::name_current_thread("probe")?;
        affinity::set_current(&[beat.cpu])?;
        // For the time in which it is an ordinary thread.
        task::set_timer_slack(1)?;
        task::lock_all_memory(libc::MCL_CURRENT)?;
        sched::set_current(Policy::Fifo(PRIORITY))
    };
    if set().is_err() {
        // SAFETY: _exit only ends this process.
        unsafe { libc::_exit(1) };
    }
    shared.ready.store(1, Ordering::Release);
    let mut due_ns = beat.start_ns;
    let mut number = 0;
    while shared.over.load(Ordering::Relaxed) == 0 && number < SAMPLES {
        let disturbed = beat.is_disturbed(due_ns);
        let habit = match shared.habit.load(Ordering::Relaxed) {
            1 => Habit::Faults,
            2 => Habit::Locks,
            _ => Habit::None,
        };
        let fresh = (disturbed && habit == Habit::Faults).then(Fresh::new);
        let _ = time::sleep_until(due_ns);
        let (from_ns, to_ns) = match (fresh, disturbed, habit) {
            (Some(fresh), _, _) => {
                let from_ns = clock::now_ns();
                fresh.touch(from_ns + beat.length_ns);
                (from_ns, clock::now_ns())
            }
            (_, true, Habit::Locks) => {
                let from_ns = clock::now_ns();
                Lock(shared).with(clock::now_ns);
                (from_ns, clock::now_ns())
            }
            _ => (0, 0),
        };
        let woken_ns = if to_ns == 0 { clock::now_ns() } else { to_ns };
        for (word, value) in shared.samples[number]
            .iter()
            .zip([due_ns, woken_ns, from_ns, to_ns])
        {
            word.store(value, Ordering::Relaxed);
        }
        number += 1;
        shared.count.store(number as u64, Ordering::Release);
        while due_ns <= woken_ns {
            due_ns += beat.period_ns;
        }
    }
    // SAFETY: _exit only ends this process.
    unsafe { libc::_exit(0) };
}

/// Memory that isn't present until it is touched.
struct Fresh(*mut libc::c_void);

impl Fresh {
    fn new() -> Self {
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping overlaps no existing one.
        let place = unsafe { libc::mmap(null_mut(), FRESH, read_write, flags, -1, 0) };
        assert!(place != libc::MAP_FAILED, "no memory");
        // Page by page, not a huge page at once.
        // SAFETY: the mapping exists, and the advice changes no contents.
        unsafe { libc::madvise(place, FRESH, libc::MADV_NOHUGEPAGE) };
        Self(place)
    }

    fn touch(&self, until_ns: u64) {
        for at in (0..FRESH).step_by(PAGE) {
            // SAFETY: the offset is within the mapping.
            let byte = unsafe { self.0.cast::<u8>().add(at) };
            // SAFETY: the mapping is writable.
            unsafe { byte.write_volatile(1) };
            if clock::now_ns() >= until_ns {
                return;
            }
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: no reference into the mapping exists.
        unsafe { libc::munmap(self.0, FRESH) };
    }
}
