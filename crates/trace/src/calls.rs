//! Names of the system calls that a thread can sleep in.

use punctual_record::KernelCall;

/// No system call: a page fault, or an interrupt's work.
pub const NO_CALL: u32 = 0xffff;

macro_rules! named {
    ($($call:ident),* $(,)?) => {
        [$((libc::$call, stringify!($call))),*]
    };
}

/// System calls that sleep, or may; any other is named by its number.
const CALLS: &[(libc::c_long, &str)] = &named![
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_fstat,
    SYS_lseek,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_brk,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_ioctl,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_pipe2,
    SYS_sched_yield,
    SYS_mremap,
    SYS_msync,
    SYS_madvise,
    SYS_nanosleep,
    SYS_socket,
    SYS_connect,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_recvmmsg,
    SYS_shutdown,
    SYS_clone,
    SYS_clone3,
    SYS_execve,
    SYS_exit,
    SYS_exit_group,
    SYS_wait4,
    SYS_waitid,
    SYS_kill,
    SYS_tgkill,
    SYS_semop,
    SYS_semtimedop,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_fcntl,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sync_file_range,
    SYS_fallocate,
    SYS_truncate,
    SYS_ftruncate,
    SYS_getdents64,
    SYS_unlinkat,
    SYS_openat,
    SYS_newfstatat,
    SYS_futex,
    SYS_futex_waitv,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_clock_nanosleep,
    SYS_pselect6,
    SYS_ppoll,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_splice,
    SYS_tee,
    SYS_vmsplice,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_process_vm_readv,
    SYS_mlock,
    SYS_mlock2,
    SYS_mlockall,
    SYS_munlockall,
    SYS_membarrier,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_io_uring_enter,
    SYS_sched_setscheduler,
    SYS_sched_setaffinity,
    SYS_sched_setattr,
    SYS_perf_event_open,
    SYS_bpf,
];

/// Those that newer architectures never had: their programs call `openat`, `ppoll`, `clone` instead.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(libc::c_long, &str)] = &named![
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_poll,
    SYS_access,
    SYS_select,
    SYS_pause,
    SYS_fork,
    SYS_vfork,
    SYS_rename,
    SYS_mkdir,
    SYS_unlink,
    SYS_epoll_wait,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(libc::c_long, &str)] = &[];

/// The operations of a futex.
const FUTEX: [&str; 14] = [
    "WAIT",
    "WAKE",
    "FD",
    "REQUEUE",
    "CMP_REQUEUE",
    "WAKE_OP",
    "LOCK_PI",
    "UNLOCK_PI",
    "TRYLOCK_PI",
    "WAIT_BITSET",
    "WAKE_BITSET",
    "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI",
    "LOCK_PI2",
];

/// What a thread slept in, by the number that the kernel's side gives it: `read`,
/// `futex LOCK_PI`.
#[must_use]
pub fn name(call: u32) -> KernelCall {
    let number = call & 0xffff;
    if number == NO_CALL {
        return KernelCall::FaultOrInterrupt {};
    }
    let known = CALLS
        .iter()
        .chain(OLD_CALLS)
        .find(|(known, _)| *known == libc::c_long::from(number));
    let Some((_, name)) = known else {
        return KernelCall::Number(number);
    };
    let name = name.trim_start_matches("SYS_");
    match FUTEX.get((call >> 16) as usize) {
        Some(operation) if name == "futex" => KernelCall::Name(format!("futex {operation}")),
        _ => name.into(),
    }
}

/// Calls whose timeout is a length of time, although the kernel converts it to an instant.
/// `restart_syscall` belongs to them: after a signal, calls with an instant are called again instead.
const LENGTHS: &[libc::c_long] = &[
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semtimedop,
];
/// Those of [`OLD_CALLS`].
#[cfg(target_arch = "x86_64")]
const OLD_LENGTHS: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const OLD_LENGTHS: &[libc::c_long] = &[];
/// The operation of a futex whose timeout is a length of time.
const FUTEX_WAIT: u32 = 0;

/// Whether the call's own timeout is a length of time, and not an instant.
#[must_use]
pub fn takes_a_length(call: u32) -> bool {
    let number = libc::c_long::from(call & 0xffff);
    let is_futex_wait = number == libc::SYS_futex && call >> 16 == FUTEX_WAIT;
    LENGTHS.contains(&number) || OLD_LENGTHS.contains(&number) || is_futex_wait
}

/// Whether it only says that something has come, which the program then takes with another call.
#[must_use]
pub fn polls(call: u32) -> bool {
    const POLLS: &[libc::c_long] = &[
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_io_uring_enter,
    ];
    let number = libc::c_long::from(call & 0xffff);
    POLLS.contains(&number) || OLD_LENGTHS.contains(&number)
}

/// Whether it waits for a lock whose holder the kernel knows.
#[must_use]
pub fn is_futex(call: u32) -> bool {
    libc::c_long::from(call & 0xffff) == libc::SYS_futex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_and_unknown_ones_their_number() {
        assert_eq!(name(libc::SYS_read as u32), "read".into());
        assert_eq!(
            name(libc::SYS_clock_nanosleep as u32),
            "clock_nanosleep".into()
        );
        let futex = libc::SYS_futex as u32;
        assert_eq!(name(6 << 16 | futex), "futex LOCK_PI".into());
        assert_eq!(name(99 << 16 | futex), "futex".into());
        assert_eq!(name(60_000), KernelCall::Number(60_000));
        assert_eq!(name(NO_CALL), KernelCall::FaultOrInterrupt {});
        assert!(is_futex(futex) && is_futex(6 << 16 | futex) && !is_futex(0));
    }

    #[test]
    fn timeouts_that_are_lengths_are_distinguished_from_instants() {
        let futex = libc::SYS_futex as u32;
        for call in [libc::SYS_ppoll as u32, libc::SYS_nanosleep as u32, futex] {
            assert!(takes_a_length(call), "{:?}", name(call));
        }
        #[cfg(target_arch = "x86_64")]
        assert!(takes_a_length(libc::SYS_poll as u32));
        // glibc and the JVM wait with `FUTEX_WAIT_BITSET`, for an instant.
        for call in [libc::SYS_clock_nanosleep as u32, 9 << 16 | futex, NO_CALL] {
            assert!(!takes_a_length(call), "{:?}", name(call));
        }
    }
}
