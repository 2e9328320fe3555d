//! CPU samples: where the threads of a process run, by perf_event, with no thread stopped.
//!
//! In: a process and how often. Out: [`RawCpuSample`]: the address, the kernel's frames, the user's registers
//! and the top of the user's stack.
//!
//! One event for each CPU of the machine, and the samples of other processes are thrown away here. The other
//! ways cost more: an event for each thread has to be opened for each thread and each CPU (inherited events may
//! not share a buffer otherwise), is scheduled in and out at each context switch, and misses threads that come
//! and go; a server with a thousand threads on 64 CPUs would need 64,000 of them. The price of this way is
//! a privilege: CAP_PERFMON, or `kernel.perf_event_paranoid` at 0 or below.
//!
//! The kernel adjusts the hardware's cycles to the wanted frequency. Where there are no hardware counters, as in
//! most virtual machines, a timer on each CPU does (`cpu-clock`).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use linux_perf_event_reader::{
    BranchSampleFormat, CpuMode, Endianness, EventRecord, RawData, RawEventRecord, ReadFormat,
    RecordIdParseInfo, RecordParseInfo, RecordType, SampleFormat, SampleRecord,
};
use perf_event_open_sys::bindings::{self, perf_event_attr, perf_event_mmap_page};

use super::{CpuSamples, RawCpuSample};
use crate::error::{Error, Result};
use crate::registers::Registers;

/// How much of a stack each sample copies. It goes from the stack pointer upwards and ends with the stack. Nearly
/// all stacks of a busy mysqld are shorter; a record of perf cannot be longer than 64 KiB. It costs about 2 us.
pub(crate) const STACK_BYTES: u32 = 32 * 1024;

/// The deepest kernel stacks of a system call have about 30 frames.
const KERNEL_FRAMES: u16 = 64;

/// For how long a CPU's buffer can hold its samples when nobody reads them, seconds. They are read every tenth of one.
const BUFFER_SECONDS: f64 = 0.3;

/// The largest buffer of a CPU, bytes.
const LARGEST_BUFFER: usize = 4 << 20;

/// Callchain entries above this are marks (`PERF_CONTEXT_KERNEL` and its like, from -4095 on), not addresses.
const FIRST_MARK: u64 = -4095_i64 as u64;

#[cfg(target_arch = "x86_64")]
mod register {
    //! Numbers of registers in perf's order, from `asm/perf_regs.h`.
    pub(super) const FP: u64 = 6;
    pub(super) const LR: Option<u64> = None;
    pub(super) const SP: u64 = 7;
    pub(super) const PC: u64 = 8;
}

#[cfg(target_arch = "aarch64")]
mod register {
    //! Numbers of registers in perf's order, from `asm/perf_regs.h`.
    pub(super) const FP: u64 = 29;
    pub(super) const LR: Option<u64> = Some(30);
    pub(super) const SP: u64 = 31;
    pub(super) const PC: u64 = 32;
}

const REGISTERS: u64 = 1 << register::FP
    | 1 << register::SP
    | 1 << register::PC
    | match register::LR {
        Some(lr) => 1 << lr,
        None => 0,
    };

/// Samples what a process runs.
#[derive(Debug)]
pub struct CpuSampler {
    pid: u32,
    clock: Clock,
    buffers: Vec<Buffer>,
    format: RecordParseInfo,
    /// What was read last. The memory is used again: some hundred stacks a second would be taken from the system and given
    /// back otherwise, page by page.
    read: CpuSamples,
}

/// What drives the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The CPU's cycles.
    Cycles,
    /// A timer on each CPU.
    Timer,
}

impl CpuSampler {
    /// Begins to sample: `hz` times a second on each CPU, whenever it runs a thread of the process.
    ///
    /// # Errors
    /// Where the kernel refuses; the error names the capability or the setting.
    pub fn start(pid: u32, hz: f64) -> Result<Self> {
        let hz = (hz.round() as u64).max(1);
        let cpus = online_cpus()?;
        let (clock, first) = open_first(hz, Whom::Cpu(cpus[0]))?;
        let mut buffers = vec![Buffer::map(first, buffer_bytes(hz))?];
        for &cpu in &cpus[1..] {
            match open(clock, hz, Whom::Cpu(cpu)) {
                Ok(event) => buffers.push(Buffer::map(event, buffer_bytes(hz))?),
                // It went offline meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(refused(&error, hz)),
            }
        }
        Ok(Self { pid, clock, buffers, format: record_format(), read: CpuSamples::default() })
    }

    /// Begins to sample one thread of a process: `hz` times in each second that it runs. No other thread is interrupted.
    ///
    /// # Errors
    /// As for [`CpuSampler::start`]; and where there is no such thread.
    pub fn start_on_thread(pid: u32, tid: u32, hz: f64) -> Result<Self> {
        let hz = (hz.round() as u64).max(1);
        let (clock, event) = open_first(hz, Whom::Thread(tid))?;
        let buffers = vec![Buffer::map(event, buffer_bytes(hz))?];
        Ok(Self { pid, clock, buffers, format: record_format(), read: CpuSamples::default() })
    }

    /// What drives the samples.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The samples since the last reading.
    pub fn read(&mut self) -> &CpuSamples {
        let Self { pid, buffers, format, read, .. } = self;
        read.samples.clear();
        read.stacks.clear();
        read.lost = 0;
        for buffer in buffers {
            buffer.drain(&mut |kind, misc, data| take(read, *pid, *format, kind, misc, data));
        }
        read.samples.sort_by_key(|sample| sample.at_ns);
        read
    }
}

/// The sample, where it is of this process. Its stack is added to the others.
fn raw(record: &SampleRecord<'_>, pid: u32, mode: CpuMode, stacks: &mut Vec<u8>) -> Option<RawCpuSample> {
    // Zero where the process is not in our pid namespace: then it cannot be the one that was asked for.
    if record.pid? != i32::try_from(pid).ok()? {
        return None;
    }
    let registers = record.user_regs.as_ref()?;
    let get = |number| registers.get(number);
    let mut kernel = Vec::new();
    if let Some(chain) = &record.callchain {
        let entries = (0..chain.len()).filter_map(|at| chain.get(at));
        kernel.extend(entries.filter(|&address| address < FIRST_MARK));
    }
    let address = record.ip?;
    if kernel.is_empty() && mode == CpuMode::Kernel {
        kernel.push(address);
    }
    let sp = get(register::SP)?;
    let sample = RawCpuSample {
        tid: u32::try_from(record.tid?).ok()?,
        at_ns: record.timestamp?,
        address,
        kernel,
        registers: Registers {
            pc: get(register::PC)?,
            sp,
            fp: get(register::FP),
            lr: register::LR.and_then(get),
        },
        stack_start: sp,
        stack: stacks.len()..stacks.len(),
    };
    // The kernel leaves room for as much as was asked for, and says how much of it is the stack.
    let (room, len) = record.user_stack.unwrap_or((RawData::Single(&[]), 0));
    let copied = room.get(0..usize::try_from(len).unwrap_or(usize::MAX).min(room.len()));
    stacks.extend_from_slice(&copied.unwrap_or(RawData::Single(&[])).as_slice());
    Some(RawCpuSample { stack: sample.stack.start..stacks.len(), ..sample })
}

/// A setting of the kernel, as its file below `/proc/sys/kernel` has it.
pub(super) fn setting(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}"))
        .map_or_else(|_| "unknown".to_owned(), |value| value.trim().to_owned())
}

fn refused(error: &io::Error, hz: u64) -> Error {
    let (because, unlock) = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => (
            format!(
                "the kernel lets only the privileged sample CPUs (kernel.perf_event_paranoid is {})",
                setting("perf_event_paranoid")
            ),
            "run as root, grant CAP_PERFMON and CAP_SYS_PTRACE, or set kernel.perf_event_paranoid to 0"
                .to_owned(),
        ),
        Some(libc::EINVAL) => (
            format!("the kernel refuses {hz} samples a second"),
            format!(
                "ask for at most {}, or raise kernel.perf_event_max_sample_rate",
                setting("perf_event_max_sample_rate")
            ),
        ),
        Some(libc::EMFILE | libc::ENFILE) => (
            "it needs a file descriptor for each CPU".to_owned(),
            "raise the limit on open files (ulimit -n)".to_owned(),
        ),
        _ => (
            format!("perf_event_open failed: {error}"),
            "use a kernel with CONFIG_PERF_EVENTS, outside of a sandbox".to_owned(),
        ),
    };
    Error::Unavailable { source_name: "cpu", because, unlock }
}

/// No hardware counters: none in this machine, or no driver for them.
fn is_without_counters(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO))
}

fn sample_format() -> SampleFormat {
    SampleFormat::IP
        | SampleFormat::TID
        | SampleFormat::TIME
        | SampleFormat::CALLCHAIN
        | SampleFormat::REGS_USER
        | SampleFormat::STACK_USER
}

fn record_format() -> RecordParseInfo {
    RecordParseInfo {
        endian: Endianness::LittleEndian,
        sample_format: sample_format(),
        branch_sample_format: BranchSampleFormat::empty(),
        read_format: ReadFormat::empty(),
        common_data_offset_from_end: None,
        sample_regs_user: REGISTERS,
        user_regs_count: REGISTERS.count_ones() as u8,
        sample_regs_intr: 0,
        intr_regs_count: 0,
        id_parse_info: RecordIdParseInfo {
            nonsample_record_id_offset_from_end: None,
            sample_record_id_offset_from_start: None,
        },
        nonsample_record_time_offset_from_end: None,
        // After the address and the thread.
        sample_record_time_offset_from_start: Some(16),
    }
}

/// Who is sampled: whatever runs on a CPU, or a thread wherever it runs.
#[derive(Debug, Clone, Copy)]
enum Whom {
    Cpu(u32),
    Thread(u32),
}

/// The first event, and the clock that there is.
fn open_first(hz: u64, whom: Whom) -> Result<(Clock, OwnedFd)> {
    match open(Clock::Cycles, hz, whom) {
        Ok(event) => Ok((Clock::Cycles, event)),
        Err(error) if is_without_counters(&error) => {
            let event = open(Clock::Timer, hz, whom).map_err(|error| refused(&error, hz))?;
            Ok((Clock::Timer, event))
        }
        Err(error) => Err(refused(&error, hz)),
    }
}

/// How much a buffer has to hold.
fn buffer_bytes(hz: u64) -> usize {
    (hz as f64 * BUFFER_SECONDS * f64::from(STACK_BYTES)) as usize
}

fn open(clock: Clock, hz: u64, whom: Whom) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr::default();
    attributes.size = size_of::<perf_event_attr>() as u32;
    attributes.sample_type = sample_format().bits();
    attributes.sample_regs_user = REGISTERS;
    attributes.sample_stack_user = STACK_BYTES;
    attributes.sample_max_stack = KERNEL_FRAMES;
    attributes.clockid = libc::CLOCK_MONOTONIC;
    (attributes.type_, attributes.config) = match clock {
        Clock::Cycles => (bindings::PERF_TYPE_HARDWARE, u64::from(bindings::PERF_COUNT_HW_CPU_CYCLES)),
        Clock::Timer => (bindings::PERF_TYPE_SOFTWARE, u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK)),
    };
    attributes.set_freq(1);
    attributes.sample_freq = hz;
    attributes.set_exclude_idle(1);
    attributes.set_exclude_hv(1);
    attributes.set_exclude_callchain_user(1);
    attributes.set_use_clockid(1);
    // Nobody sleeps on the descriptor.
    attributes.set_watermark(1);
    attributes.wakeup_watermark = u32::MAX >> 1;
    let (pid, cpu) = match whom {
        Whom::Cpu(cpu) => (-1, i32::try_from(cpu).map_err(io::Error::other)?),
        Whom::Thread(tid) => (i32::try_from(tid).map_err(io::Error::other)?, -1),
    };
    open_event(&mut attributes, pid, cpu)
}

/// Opens an event of a thread, or of whatever runs on a CPU. The attributes name their own size.
#[expect(unsafe_code, reason = "perf_event_open(2) has no safe wrapper")]
pub(super) fn open_event(attributes: &mut perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let flags = bindings::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are initialised and of the size they name; the kernel only reads them, or writes that size.
    let descriptor = unsafe { perf_event_open_sys::perf_event_open(attributes, pid, cpu, -1, flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The buffer that the kernel puts one CPU's records into.
#[derive(Debug)]
struct Buffer {
    /// The event's; closing it ends the sampling.
    _event: OwnedFd,
    page: NonNull<perf_event_mmap_page>,
    /// Of the whole mapping: a page of control data, then the records.
    len: usize,
    /// Where the records begin.
    data_at: usize,
}

impl Buffer {
    #[expect(unsafe_code, reason = "the kernel writes records into memory that is mapped here")]
    fn map(event: OwnedFd, wanted: usize) -> Result<Self> {
        let page_size = rustix::param::page_size();
        // The kernel wants a power of two.
        let data = wanted.clamp(page_size * 32, LARGEST_BUFFER).next_power_of_two();
        let len = page_size + data;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(page) if address != libc::MAP_FAILED => {
                Ok(Self { _event: event, page, len, data_at: page_size })
            }
            _ => Err(Error::Unavailable {
                source_name: "cpu",
                because: format!(
                    "the kernel refuses a buffer of {data} bytes: {}",
                    io::Error::last_os_error()
                ),
                unlock: "run as root, grant CAP_PERFMON, or raise kernel.perf_event_mlock_kb".to_owned(),
            }),
        }
    }

    /// Hands over each record: its type, `misc` and body; then gives their room back to the kernel.
    #[expect(unsafe_code, reason = "the kernel writes records into memory that is mapped here")]
    fn drain(&mut self, each: &mut dyn FnMut(RecordType, u16, RawData<'_>)) {
        let page = self.page.as_ptr();
        // SAFETY: both lie in the mapping and are aligned; the kernel and we use them as atomic counters.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail))
        };
        // Pairs with the kernel's write barrier: what lies before the head was written before it.
        let end = head.load(Ordering::Acquire);
        let at = tail.load(Ordering::Relaxed);
        let size = self.len - self.data_at;
        // SAFETY: the mapping holds `size` bytes from there on and lives as long as `self`. The kernel writes only
        // outside of what lies between tail and head, and nothing else is read through this slice.
        let data =
            unsafe { std::slice::from_raw_parts(self.page.as_ptr().cast::<u8>().add(self.data_at), size) };
        records(data, at, end, each);
        // All was read, and what could not be understood is passed over.
        tail.store(end, Ordering::Release);
    }
}

/// Hands over each record of a ring between two positions: its type, `misc` and body.
fn records(data: &[u8], mut at: u64, end: u64, each: &mut dyn FnMut(RecordType, u16, RawData<'_>)) {
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX).min(data.len());
        let mut record = at_ring(data, at, left);
        // struct perf_event_header { u32 type; u16 misc; u16 size; }
        let mut header = [0; 8];
        if record.read_exact(&mut header).is_err() {
            break;
        }
        let [a, b, c, d, misc @ .., e, f] = header;
        let (kind, len) = (u32::from_ne_bytes([a, b, c, d]), usize::from(u16::from_ne_bytes([e, f])));
        let body = len.checked_sub(header.len()).filter(|_| len <= left);
        let Some(body) = body.and_then(|body| record.split_off_prefix(body).ok()) else { break };
        each(RecordType(kind), u16::from_ne_bytes(misc), body);
        at += len as u64;
    }
}

/// The samples of a process in a ring, whose size is a power of two, between two positions.
pub fn parse_ring(ring: &[u8], from: u64, to: u64, pid: u32) -> CpuSamples {
    let mut read = CpuSamples::default();
    if ring.len().is_power_of_two() {
        records(ring, from, to, &mut |kind, misc, data| {
            take(&mut read, pid, record_format(), kind, misc, data);
        });
    }
    read
}

/// Takes a record up.
fn take(
    read: &mut CpuSamples,
    pid: u32,
    format: RecordParseInfo,
    kind: RecordType,
    misc: u16,
    data: RawData<'_>,
) {
    let is_read = match kind {
        RecordType::SAMPLE => is_chain_within(data),
        RecordType::LOST => true,
        _ => false,
    };
    if !is_read {
        return;
    }
    match RawEventRecord::new(kind, misc, data, format).parse() {
        Ok(EventRecord::Sample(record)) => {
            read.samples.extend(raw(&record, pid, CpuMode::from_misc(misc), &mut read.stacks));
        }
        Ok(EventRecord::Lost(record)) => read.lost = read.lost.saturating_add(record.count),
        _ => {}
    }
}

/// Whether a sample's call chain ends within the sample: the reader of records multiplies its length without asking.
///
/// The length stands behind the address, the thread and the time, 8 bytes each: [`sample_format`].
fn is_chain_within(data: RawData<'_>) -> bool {
    const LENGTH: std::ops::Range<usize> = 24..32;
    let Some(Ok(length)) = data.get(LENGTH).map(|bytes| <[u8; 8]>::try_from(&*bytes.as_slice())) else {
        return false;
    };
    u64::from_le_bytes(length) <= (data.len() - LENGTH.end) as u64 / 8
}

impl Drop for Buffer {
    #[expect(unsafe_code, reason = "munmap(2)")]
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and nothing borrows from it.
        unsafe { libc::munmap(self.page.as_ptr().cast(), self.len) };
    }
}

/// `len` bytes of a ring from a position on that counts all bytes ever written. The size is a power of two.
fn at_ring(ring: &[u8], position: u64, len: usize) -> RawData<'_> {
    let from = (position % ring.len() as u64) as usize;
    let len = len.min(ring.len());
    match ring.get(from..from + len) {
        Some(one) => RawData::Single(one),
        None => RawData::Split(&ring[from..], &ring[..from + len - ring.len()]),
    }
}

fn online_cpus() -> Result<Vec<u32>> {
    let path = std::path::PathBuf::from("/sys/devices/system/cpu/online");
    let text = fs::read_to_string(&path).map_err(|error| Error::File { path: path.clone(), error })?;
    let cpus = cpu_list(&text);
    if cpus.is_empty() {
        let error = io::Error::new(io::ErrorKind::InvalidData, format!("no list of CPUs: {text:?}"));
        return Err(Error::File { path, error });
    }
    Ok(cpus)
}

/// `0-3,8`
fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_has_ranges_and_single_ones() {
        assert_eq!(cpu_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(cpu_list("0\n"), [0]);
        assert!(cpu_list("").is_empty());
    }

    #[test]
    fn a_call_chain_longer_than_its_sample_is_no_sample() {
        // The header says a sample of 168 bytes; behind address, thread and time stands the chain's length.
        let sample = include_bytes!("../../../../fuzz/seeds/perf_ring/sample");
        let mut ring = sample[4..].to_vec();
        ring.resize(4_096, 0);
        let read = |ring: &[u8]| parse_ring(ring, 0, 168, 7).samples.len();
        assert_eq!(read(&ring), 1);
        // Eight times the last one is more than 64 bits hold.
        for length in [16, 1 << 61, u64::MAX] {
            ring[32..40].copy_from_slice(&u64::to_le_bytes(length));
            assert_eq!(read(&ring), 0, "a chain of {length}");
        }
    }

    #[test]
    fn a_record_may_go_over_the_end_of_the_ring() {
        let ring = [0, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(at_ring(&ring, 8 + 2, 3).as_slice(), [2, 3, 4].as_slice());
        assert_eq!(at_ring(&ring, 16 + 6, 4).as_slice(), [6, 7, 0, 1].as_slice());
        assert_eq!(at_ring(&ring, 6, 2).as_slice(), [6, 7].as_slice());
    }

    #[test]
    fn a_refusal_names_the_capability_or_the_setting() {
        let message = |code| refused(&io::Error::from_raw_os_error(code), 250_000).to_string();
        assert!(message(libc::EACCES).contains("CAP_PERFMON"), "{}", message(libc::EACCES));
        assert!(message(libc::EACCES).contains("kernel.perf_event_paranoid is "));
        assert!(message(libc::EINVAL).contains("kernel.perf_event_max_sample_rate"));
        assert!(message(libc::EMFILE).contains("ulimit -n"));
    }
}
