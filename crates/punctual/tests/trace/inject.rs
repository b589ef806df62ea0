//! Culprits of known length, put in the way of a probe at known instants.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use aya::maps::{Array, MapData};
use aya::programs::RawTracePoint;
use aya::{Ebpf, Pod};
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::{task, time};
use punctual_rt::{affinity, clock};

/// A kind of culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Culprit {
    /// A thread of a higher priority.
    Hog,
    /// The kernel on the CPU itself, where nothing can preempt it.
    PreemptOff,
    /// The kernel in an interrupt that another CPU asked for.
    IrqsOff,
    /// Packets to ourselves, from the CPU itself.
    Flood,
}

/// When one was really there.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub begin_ns: u64,
    pub end_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Order {
    length_ns: u64,
    begin_ns: u64,
    end_ns: u64,
}
// SAFETY: three words without padding, of which every pattern is a value.
unsafe impl Pod for Order {}

/// The kernel's part: a program that spins.
struct Spinner {
    programs: Ebpf,
}

impl Spinner {
    fn new() -> Result<Self, String> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let object =
            std::env::temp_dir().join(format!("punctual-injector-{}.o", std::process::id()));
        let built = Command::new("clang")
            .args([
                "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c",
            ])
            .arg("-I")
            .arg(root.join("src/trace/capture/bpf"))
            .arg(root.join("tests/trace/injector.bpf.c"))
            .arg("-o")
            .arg(&object)
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("no clang that builds the injector".to_owned());
        }
        let programs = Ebpf::load_file(&object).map_err(|error| error.to_string());
        let _ = std::fs::remove_file(&object);
        let mut programs = programs?;
        let spin: &mut RawTracePoint = programs
            .program_mut("spin")
            .ok_or("no program")?
            .try_into()
            .map_err(|error| format!("{error}"))?;
        // Before 5.17 there is no loop in the kernel that lasts long enough.
        spin.load()
            .map_err(|error| format!("the kernel refuses the injector: {error}"))?;
        Ok(Self { programs })
    }

    fn spin(&mut self, length_ns: u64, on_cpu: Option<u32>) -> Truth {
        let map = self.programs.map_mut("orders").expect("it has the map");
        let mut orders: Array<&mut MapData, Order> = Array::try_from(map).expect("an array");
        let order = Order {
            length_ns,
            ..Order::default()
        };
        orders.set(0, order, 0).expect("its one entry");
        let spin: &RawTracePoint = self.programs.program("spin").unwrap().try_into().unwrap();
        run(spin.fd().unwrap().as_fd(), on_cpu);
        let map = self.programs.map("orders").expect("it has the map");
        let orders: Array<&MapData, Order> = Array::try_from(map).expect("an array");
        let order = orders.get(&0, 0).expect("its one entry");
        Truth {
            begin_ns: order.begin_ns,
            end_ns: order.end_ns,
        }
    }
}

/// BPF_PROG_TEST_RUN, here or on another CPU.
fn run(program: BorrowedFd<'_>, on_cpu: Option<u32>) {
    let mut arguments = [0_u32; 20];
    arguments[0] = program.as_raw_fd() as u32;
    // uapi/linux/bpf.h: flags and cpu follow the two contexts.
    if let Some(cpu) = on_cpu {
        arguments[16] = 1;
        arguments[17] = cpu;
    }
    // SAFETY: the structure is as long as is told, and holds no pointer.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            10,
            arguments.as_mut_ptr(),
            size_of_val(&arguments),
        )
    };
    assert_eq!(
        done,
        0,
        "BPF_PROG_TEST_RUN: {}",
        std::io::Error::last_os_error()
    );
}

/// A culprit at work.
pub struct Injection {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Truth>>,
}

/// Where and when.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub cpu: usize,
    /// The probe's first instant and its period.
    pub start_ns: u64,
    pub period_ns: u64,
    /// In the way of every so many-th wake-up.
    pub every: u64,
    pub length_ns: u64,
}

impl Injection {
    /// Lets the culprit loose.
    pub fn start(culprit: Culprit, place: Place) -> Result<Self, String> {
        let mut spinner = match culprit {
            Culprit::PreemptOff | Culprit::IrqsOff => Some(Spinner::new()?),
            _ => None,
        };
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (name, cpu, policy) = match culprit {
                Culprit::Hog => ("fifo99-hog", place.cpu, Policy::Fifo(99)),
                // Below the probe, and above all else, so that it comes in time.
                Culprit::PreemptOff => ("preempt-off", place.cpu, Policy::Fifo(50)),
                Culprit::IrqsOff => ("irqs-off", other_cpu(place.cpu), Policy::Fifo(50)),
                Culprit::Flood => ("flood", place.cpu, Policy::Other),
            };
            let _ = task::name_current_thread(name);
            affinity::set_current(&[cpu]).unwrap();
            sched::set_current(policy).unwrap();
            let mut truths = Vec::new();
            if culprit == Culprit::Flood {
                flood(&ended);
                return truths;
            }
            let mut due_ns = place.start_ns + place.every * place.period_ns;
            while !ended.load(Ordering::Relaxed) {
                let _ = time::sleep_until(due_ns - 100_000);
                truths.push(match (culprit, &mut spinner) {
                    (Culprit::IrqsOff, Some(spinner)) => {
                        spinner.spin(place.length_ns, Some(place.cpu as u32))
                    }
                    (_, Some(spinner)) => spinner.spin(place.length_ns, None),
                    _ => hog(place.length_ns),
                });
                while due_ns < clock::now_ns() + 200_000 {
                    due_ns += place.every * place.period_ns;
                }
            }
            truths
        });
        Ok(Self { over, thread })
    }

    /// Calls it off and says when it was there.
    pub fn end(self) -> Vec<Truth> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn hog(length_ns: u64) -> Truth {
    let begin_ns = clock::now_ns();
    while clock::now_ns() < begin_ns + length_ns {
        std::hint::spin_loop();
    }
    Truth {
        begin_ns,
        end_ns: clock::now_ns(),
    }
}

fn flood(over: &AtomicBool) {
    let to = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let packet = vec![0_u8; 60_000];
    while !over.load(Ordering::Relaxed) {
        let _ = from.send(&packet);
    }
}

/// Some other CPU.
pub fn other_cpu(cpu: usize) -> usize {
    cpus()
        .iter()
        .copied()
        .find(|other| *other != cpu)
        .unwrap_or(cpu)
}

/// CPUs that the tests may use, as it was before any thread was pinned.
pub fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| punctual::system::allowed(&punctual::system::Root::live()))
}
