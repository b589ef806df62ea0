//! The culprits' kernel side: programs that spin at a place and record when.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::{Array, MapData};
use aya::programs::{RawTracePoint, SocketFilter};
use aya::{Ebpf, EbpfLoader, Pod};

use super::stint::{GAPS, Gaps, Was};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/injector.bpf.o"));

/// What delays the CPU: the index of its order in the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    HereOrThere,
    IrqsOff,
    Interrupt,
    Timers,
    Packet,
}

/// See `struct order`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    pub length_ns: u64,
    pub until_ns: u64,
    pub times: u64,
    pub who: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub left: u64,
    pub cpu: u64,
    pub last_ns: u64,
    pub gaps: u64,
    pub gap: [[u64; 2]; GAPS],
}
// SAFETY: it consists of integers without padding, so every bit pattern is valid.
unsafe impl Pod for Order {}

pub struct Kernel {
    programs: Ebpf,
}

impl Kernel {
    pub fn new() -> Result<Self, String> {
        // It fits any kernel as it is: it needs no type information.
        let mut loader = EbpfLoader::new();
        let programs = loader.btf(None).load(OBJECT);
        let programs = programs.map_err(|error| error.to_string())?;
        Ok(Self { programs })
    }

    fn tracer(&mut self, name: &str) -> Result<&mut RawTracePoint, String> {
        let program = self.programs.program_mut(name).ok_or("no such program")?;
        let program: &mut RawTracePoint = program
            .try_into()
            .map_err(|error: aya::programs::ProgramError| error.to_string())?;
        // Before 5.17 no loop in a BPF program can last long enough.
        let refused = |error| format!("the kernel refuses the injector: {error}");
        program.load().map_err(refused)?;
        Ok(program)
    }

    /// Attaches a program to its tracepoint, until this is dropped.
    pub fn attach(&mut self, name: &str, tracepoint: &str) -> Result<(), String> {
        let program = self.tracer(name)?;
        let attached = program.attach(tracepoint);
        attached.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Loads a program that is run by hand.
    pub fn load(&mut self, name: &str) -> Result<(), String> {
        self.tracer(name).map(|_| ())
    }

    /// Attaches the filter that delays packets to a socket.
    pub fn filter(&mut self, socket: BorrowedFd<'_>) -> Result<(), String> {
        let text = |error: aya::programs::ProgramError| error.to_string();
        let program = self.programs.program_mut("at_packet").ok_or("no filter")?;
        let filter: &mut SocketFilter = program.try_into().map_err(text)?;
        filter.load().map_err(text)?;
        filter.attach(socket).map(|_| ()).map_err(text)
    }

    pub fn order(&mut self, place: Place, order: Order) {
        let map = self.programs.map_mut("orders").expect("it has the map");
        let mut orders: Array<&mut MapData, Order> = Array::try_from(map).expect("an array");
        orders.set(place as u32, order, 0).expect("its entry");
    }

    /// When the culprit was there, if it was; cancels it.
    pub fn take(&mut self, place: Place) -> Option<Was> {
        let map = self.programs.map("orders").expect("it has the map");
        let orders: Array<&MapData, Order> = Array::try_from(map).expect("an array");
        let order = orders.get(&(place as u32), 0).expect("its entry");
        self.order(place, Order::default());
        let mut was = Was::between(order.begin_ns, order.end_ns);
        was.last_ns = order.last_ns.max(order.end_ns);
        was.gaps = Gaps::of(order.gaps as usize, order.gap.map(|[from, to]| (from, to)));
        (order.end_ns > order.begin_ns).then_some(was)
    }

    /// Runs the spinning program on this CPU, or on another one in an interrupt.
    pub fn run(&self, on_cpu: Option<u32>) {
        let program = self.programs.program("here_or_there").expect("it is there");
        let program: &RawTracePoint = program.try_into().expect("of this kind");
        let fd = program.fd().expect("loaded").as_fd().as_raw_fd();
        let mut arguments = [0_u32; 20];
        arguments[0] = fd as u32;
        // uapi/linux/bpf.h: flags and cpu follow the two contexts.
        if let Some(cpu) = on_cpu {
            arguments[16] = 1;
            arguments[17] = cpu;
        }
        const BPF_PROG_TEST_RUN: libc::c_int = 10;
        let (text, size) = (arguments.as_mut_ptr(), size_of_val(&arguments));
        // SAFETY: the structure has the given length, and contains no pointer.
        let done = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, text, size) };
        let error = std::io::Error::last_os_error();
        assert_eq!(done, 0, "BPF_PROG_TEST_RUN: {error}");
    }
}
