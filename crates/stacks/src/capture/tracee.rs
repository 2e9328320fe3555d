//! One thread under ptrace(2): the requests that the `ptrace` source and the tests make.
//!
//! The calling thread becomes the tracer. The kernel lets go of the tracee when that thread ends.

#![expect(unsafe_code, reason = "ptrace(2) has no safe wrapper in rustix")]

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use crate::registers::Registers;

/// What ptrace(2) takes as a request: the C libraries differ.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// From include/uapi/linux/wait.h; implied for traced threads since Linux 4.7.
const WALL: WaitOptions = WaitOptions::from_bits_retain(0x4000_0000);

/// A thread that this thread traces.
#[derive(Debug)]
pub struct Tracee {
    tid: i32,
}

impl Tracee {
    /// Attaches to a thread without stopping it (`PTRACE_SEIZE`).
    ///
    /// # Errors
    /// The kernel's: `EPERM` where another tracer has it or the right is missing, `ESRCH` where it has ended.
    pub fn seize(tid: u32) -> io::Result<Self> {
        let tid = i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        let tracee = Self { tid };
        // SAFETY: no pointer is used: the last argument is a set of options, here none.
        unsafe { tracee.request(libc::PTRACE_SEIZE, null_mut(), null_mut()) }?;
        Ok(tracee)
    }

    /// Asks it to stop; [`Tracee::wait`] says when it has.
    ///
    /// # Errors
    /// The kernel's.
    pub fn interrupt(&self) -> io::Result<()> {
        // SAFETY: no pointer is used.
        unsafe { self.request(libc::PTRACE_INTERRUPT, null_mut(), null_mut()) }
    }

    /// How its state has changed. With [`WaitOptions::NOHANG`]: none where it has not.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, options: WaitOptions) -> io::Result<Option<WaitStatus>> {
        Ok(waitpid(Pid::from_raw(self.tid), WALL | options)?.map(|(_, status)| status))
    }

    /// Runs one instruction of a stopped thread; [`Tracee::wait`] says when it is done.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` where it is not stopped.
    pub fn step(&self) -> io::Result<()> {
        // SAFETY: no pointer is used: the last argument is a signal's number, here none.
        unsafe { self.request(libc::PTRACE_SINGLESTEP, null_mut(), null_mut()) }
    }

    /// Lets a stopped thread go on without a tracer, and delivers a signal; 0 is none.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` where it is not stopped.
    pub fn detach(&self, signal: i32) -> io::Result<()> {
        // SAFETY: no pointer is used: the last argument is a signal's number.
        unsafe { self.request(libc::PTRACE_DETACH, null_mut(), signal as usize as *mut c_void) }
    }

    /// A stopped thread's registers, and its thread pointer. On aarch64 the thread pointer is in a set of its own, and
    /// not read.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` where it is not stopped.
    pub fn registers(&self) -> io::Result<(Registers, Option<u64>)> {
        // SAFETY: all its fields are numbers.
        let mut found: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let mut place =
            libc::iovec { iov_base: (&raw mut found).cast(), iov_len: size_of::<libc::user_regs_struct>() };
        let set = libc::NT_PRSTATUS as usize as *mut c_void;
        // SAFETY: the kernel writes at most `iov_len` bytes to `found`, and how many they were to `place`.
        unsafe { self.request(libc::PTRACE_GETREGSET, set, (&raw mut place).cast()) }?;
        #[cfg(target_arch = "x86_64")]
        return Ok((
            Registers { pc: found.rip, sp: found.rsp, fp: Some(found.rbp), lr: None },
            Some(found.fs_base),
        ));
        #[cfg(target_arch = "aarch64")]
        return Ok((
            Registers { pc: found.pc, sp: found.sp, fp: Some(found.regs[29]), lr: Some(found.regs[30]) },
            None,
        ));
    }

    /// # Safety
    /// `address` and `data` must be what the request asks for.
    unsafe fn request(&self, request: Request, address: *mut c_void, data: *mut c_void) -> io::Result<()> {
        // SAFETY: the caller's.
        match unsafe { libc::ptrace(request, self.tid, address, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}
