//! The server's own live `srv_cpu_usage`, read from its memory: how many CPUs it counts, and how
//! busy it believes it is. MySQL 8.0 and later decide by it whether commits spin.
//!
//! The symbol is looked up in the server's binary through `/proc/PID/exe`, which leads to the right
//! file after an upgrade has deleted it and from outside the server's container. Where the binary
//! was loaded is the difference between the entry point in its header and the one in
//! `/proc/PID/auxv`. Then 40 bytes are copied by `process_vm_readv`: no thread is stopped.

use std::io::Error;
use std::sync::{Arc, Mutex};

use spindoctor_model::Unavailable;
use spindoctor_model::host::SrvCpuUsage;
use spindoctor_stacks::module::elf::Elf;
use spindoctor_stacks::target_file::of_proc;

use super::source::{HostSource, Target, reading};
use super::{kernel_file, process};
use crate::pace::Pace;
use crate::source::Cadence;

/// What the server believes.
pub const SOURCE: HostSource = HostSource {
    name: "srv_cpu_usage",
    help: "CPUs that the server counts and CPU use that it sees, live from its memory",
    cost: "40 bytes of the server's memory; once, the symbol table of its binary",
    needs: "root, or the server's user where ptrace is not restricted",
    cadence: Cadence::EverySample,
    pace: Pace::host(5, 60),
    read: |target, sample, now| sample.srv_cpu_usage = reading(collect(target), now),
};

/// The global's name; it is outside any namespace, and so not mangled.
const SYMBOL: &str = "srv_cpu_usage";
/// `struct { int n_cpu; double utime_abs, stime_abs, utime_pct, stime_pct; }`
/// (MySQL 8.0 to 9.7, storage/innobase/include/srv0srv.h).
const SIZE: usize = 40;
/// More CPUs than this are a sign that something else was read.
const MOST_CPUS: i32 = 4_096;

/// Address of the symbol in one process, so that the binary is searched once and not in every
/// sample. The key is the process: id and start time.
static FOUND: Mutex<Option<(Process, Result<u64, Unavailable>)>> = Mutex::new(None);

/// One process and no later one with its number: its id, and when it was started, in ticks.
pub(crate) type Process = (u32, u64);

fn collect(target: &Target) -> Result<SrvCpuUsage, Unavailable> {
    let address = cached_address(target)?;
    let mut bytes = [0; SIZE];
    read_memory(target.pid, address, &mut bytes)?;
    if bytes == [0; SIZE] {
        // Seen of 9.7.4: about 3 s long. Its first reading of the clock gives no duration yet.
        return Err(Unavailable::because(
            "the server has not counted its CPUs yet: it does seconds after its start",
        ));
    }
    decode(&bytes).ok_or_else(|| {
        Unavailable::because("what lies at srv_cpu_usage is not what MySQL 8.0 to 9.7 keep there")
    })
}

fn cached_address(target: &Target) -> Result<u64, Unavailable> {
    let key = process_of(target)?;
    let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*found {
        Some((known, address)) if *known == key => address.clone(),
        _ => {
            let address = address_of(target, SYMBOL, SIZE as u64)?.ok_or_else(|| {
                Unavailable::because(
                    "the server's binary has no symbol srv_cpu_usage: MariaDB and MySQL before 8.0 keep none",
                )
            });
            *found = Some((key, address.clone()));
            address
        }
    }
}

/// Which process it is now.
///
/// # Errors
/// Why that cannot be read: there is none any more.
pub(crate) fn process_of(target: &Target) -> Result<Process, Unavailable> {
    let stat = process::parse_task_stat(&kernel_file::read(&target.process("stat"))?);
    Ok((target.pid, stat.map_or(0, |stat| stat.started_ticks)))
}

/// Where a data symbol of the process's binary is in its memory; None where the binary has none of
/// that name and size.
fn address_of(target: &Target, symbol: &str, size: u64) -> Result<Option<u64>, Unavailable> {
    addresses_of(target, [(symbol, size)]).map(|[address]| address)
}

/// Where data symbols of the process's binary, each of a name and a size, are in its memory; None for
/// each that the binary does not have.
///
/// # Errors
/// Why the binary cannot be read.
pub(crate) fn addresses_of<const SYMBOLS: usize>(
    target: &Target,
    symbols: [(&str, u64); SYMBOLS],
) -> Result<[Option<u64>; SYMBOLS], Unavailable> {
    let path = target.process("exe");
    let file = of_proc(&path).map_err(|error| kernel_file::because(&path, &error))?;
    let elf = Elf::open(file, &Arc::default()).map_err(|error| {
        Unavailable::because(format!("{} is no 64-bit ELF program: {error}", path.display()))
    })?;
    let values = elf.data_symbols(symbols);
    if values.iter().all(Option::is_none) {
        return Ok([None; SYMBOLS]);
    }
    let path = target.process("auxv");
    let auxv = kernel_file::read_bytes(&path).map_err(|error| kernel_file::because(&path, &error))?;
    let entry = parse_auxv_entry(&auxv).ok_or_else(|| kernel_file::unknown_form(&path))?;
    let loaded = entry.wrapping_sub(elf.entry());
    Ok(values.map(|value| Some(loaded.wrapping_add(value?))))
}

/// `AT_ENTRY` of `/proc/PID/auxv`: pairs of 64-bit words, kind and value (getauxval(3)).
pub fn parse_auxv_entry(auxv: &[u8]) -> Option<u64> {
    let (words, _) = auxv.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs
        .iter()
        .map(|[kind, value]| (u64::from_ne_bytes(*kind), u64::from_ne_bytes(*value)))
        .find(|(kind, _)| *kind == libc::AT_ENTRY)
        .map(|(_, value)| value)
}

/// Copies memory of another process, whole or not at all.
fn read_memory(pid: u32, address: u64, into: &mut [u8]) -> Result<(), Unavailable> {
    let what = || format!("read the memory of process {pid}");
    let ours = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let theirs =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: into.len() };
    let pid =
        libc::pid_t::try_from(pid).map_err(|_| Unavailable::because(format!("{pid} is no process id")))?;
    // SAFETY: `ours` describes `into`, which is borrowed mutably until the call returns; the kernel
    // writes no further than its length. `theirs` is an address in the other process: the kernel
    // checks it and answers EFAULT.
    let copied = unsafe { libc::process_vm_readv(pid, &ours, 1, &theirs, 1, 0) };
    if usize::try_from(copied) == Ok(into.len()) {
        return Ok(());
    }
    let error = Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if copied < 0 => kernel_file::no_right_to(&what()),
        _ if copied < 0 => Unavailable::because(format!("could not {}: {error}", what())),
        _ => Unavailable::because(format!("could not {}: only {copied} bytes are there", what())),
    })
}

/// Reads the struct; None where the numbers cannot be what it holds.
pub fn decode(bytes: &[u8; SIZE]) -> Option<SrvCpuUsage> {
    let (words, _) = bytes.as_chunks::<8>();
    let [first, doubles @ ..] = words else { return None };
    let n_cpu = i32::from_ne_bytes(*first.first_chunk()?);
    let mut percent = doubles.iter().map(|word| f64::from_ne_bytes(*word));
    let usage = SrvCpuUsage {
        n_cpu: u32::try_from(n_cpu).ok()?,
        utime_abs: percent.next()?,
        stime_abs: percent.next()?,
        utime_pct: percent.next()?,
        stime_pct: percent.next()?,
    };
    // Twice what all CPUs could give leaves room for how the server rounds its intervals.
    let most = 200.0 * f64::from(MOST_CPUS);
    let plausible = [usage.utime_abs, usage.stime_abs, usage.utime_pct, usage.stime_pct]
        .iter()
        .all(|percent| (0.0..=most).contains(percent));
    ((1..=MOST_CPUS).contains(&n_cpu) && plausible).then_some(usage)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ffi::CStr;
    use std::fs::File;

    use super::*;

    /// Stands in the test program for the server's global.
    #[unsafe(no_mangle)]
    #[used]
    pub(crate) static SPINDOCTOR_TEST_USAGE: [f64; 5] = [0.0, 81.5, 3.5, 40.75, 1.75];

    /// And for another one, of another size.
    #[unsafe(no_mangle)]
    #[used]
    pub(crate) static SPINDOCTOR_TEST_COUNTS: [u64; 3] = [1, 2, 3];

    #[test]
    fn a_global_of_a_running_program_is_found_and_read() {
        let target = Target::live(std::process::id());
        let address = address_of(&target, "SPINDOCTOR_TEST_USAGE", 40).unwrap().unwrap();
        assert_eq!(address, SPINDOCTOR_TEST_USAGE.as_ptr() as u64);
        let mut bytes = [0; SIZE];
        read_memory(target.pid, address, &mut bytes).unwrap();
        assert_eq!(bytes[8..16], 81.5_f64.to_ne_bytes());
    }

    #[test]
    fn a_symbol_of_another_size_is_another_symbol() {
        let target = Target::live(std::process::id());
        assert_eq!(address_of(&target, "SPINDOCTOR_TEST_USAGE", 48), Ok(None));
    }

    /// Debian's MySQL is stripped and has the dynamic table only, as has the C library here.
    #[test]
    fn a_symbol_of_the_dynamic_table_is_where_the_loader_says() {
        const NAME: &CStr = c"program_invocation_name";
        // SAFETY: dlsym and dladdr read their arguments, which outlive the calls; `info` is plain
        // data for which zero is a value.
        let (address, info) = unsafe {
            let address = libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr());
            let mut info: libc::Dl_info = std::mem::zeroed();
            assert_ne!(libc::dladdr(address, &raw mut info), 0);
            (address as u64, info)
        };
        // SAFETY: dladdr succeeded, so that the name is a string of the loader's, which lives on.
        let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().unwrap();
        let elf = Elf::open(File::open(path).unwrap(), &Arc::default()).unwrap();
        let value = elf.data_symbol(NAME.to_str().unwrap(), 8);
        assert_eq!(info.dli_fbase as u64 + value.unwrap(), address);
    }

    #[test]
    fn a_process_without_the_symbol_says_who_lacks_it() {
        let unavailable = collect(&Target::live(std::process::id())).unwrap_err();
        assert!(unavailable.because.contains("MariaDB"), "{}", unavailable.because);
    }

    #[test]
    fn an_address_that_is_not_there_is_an_error() {
        let unavailable = read_memory(std::process::id(), 8, &mut [0; 8]).unwrap_err();
        assert!(unavailable.because.starts_with("could not read the memory of process"));
    }

    #[test]
    fn the_struct_is_decoded_and_nonsense_is_not() {
        let bytes = |n_cpu: i32, utime_abs: f64| {
            let mut bytes = [0; SIZE];
            bytes[..4].copy_from_slice(&n_cpu.to_ne_bytes());
            bytes[4..8].fill(0xff);
            bytes[8..16].copy_from_slice(&utime_abs.to_ne_bytes());
            bytes
        };
        let usage = decode(&bytes(2, 199.5)).unwrap();
        assert_eq!((usage.n_cpu, usage.utime_abs, usage.stime_pct), (2, 199.5, 0.0));
        for (n_cpu, utime_abs) in
            [(0, 1.0), (-1, 1.0), (4_097, 1.0), (2, f64::NAN), (2, f64::INFINITY), (2, -1.0), (2, 1e300)]
        {
            assert_eq!(decode(&bytes(n_cpu, utime_abs)), None, "{n_cpu} {utime_abs}");
        }
    }

    #[test]
    fn a_truncated_auxv_has_no_entry() {
        assert_eq!(parse_auxv_entry(&[9, 0, 0]), None);
        assert_eq!(parse_auxv_entry(&[0; 32]), None);
    }
}
