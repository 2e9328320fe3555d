//! Files and folders of this program's own that are gone when it ends: when they are dropped, and where a signal ends it.
//!
//! Ctrl-C, SIGTERM and SIGHUP end a program at once where nobody handles them, and no `Drop` runs. While there is such a file or
//! folder they first remove it. A handler of a signal may call little (signal-safety(7)), and reads no folder: the names of all files
//! that can be in it are made before.

use std::ffi::{CString, OsString, c_int};
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use tempfile::TempDir;

/// What users, terminals and service managers end a program with.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// What SQLite and a recording's writer have beside a database (`crates/record/src/lock.rs`).
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-journal", "-lock"];

/// What is there and passes. What is in a place is never freed: a handler may be reading it.
static PLACES: [AtomicPtr<Names>; 8] = [const { AtomicPtr::new(null_mut()) }; 8];

struct Names {
    files: Vec<CString>,
    folder: Option<CString>,
}

/// A folder that nobody else can look into, with one recording in it.
#[derive(Debug)]
pub struct PassingFolder {
    /// The recording's place; nothing is there at first.
    pub recording: PathBuf,
    // It goes first, and then signals are as before.
    _folder: TempDir,
    _passing: Passing,
}

impl PassingFolder {
    /// Makes one, for a recording of this name.
    ///
    /// # Errors
    /// The system's.
    pub fn for_recording(name: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("spindoctor-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let recording = folder.path().join(name);
        let file = |ending: &str| {
            let mut path = OsString::from(&recording);
            path.push(ending);
            PathBuf::from(path)
        };
        let passing = Passing::new(&BESIDE.map(file), Some(folder.path()));
        Ok(Self { recording, _folder: folder, _passing: passing })
    }
}

/// While it is there, a signal that ends the program first removes what it names.
#[derive(Debug)]
pub struct Passing(Option<usize>);

impl Passing {
    /// For a file that has not its name yet.
    pub fn for_file(file: &Path) -> Self {
        Self::new(&[file.to_owned()], None)
    }

    /// Nothing is removed where there are too many of them, or a name has a zero byte.
    fn new(files: &[PathBuf], folder: Option<&Path>) -> Self {
        let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).ok();
        let files: Option<Vec<CString>> = files.iter().map(|file| name(file)).collect();
        let Some(files) = files else { return Self(None) };
        let names = Box::into_raw(Box::new(Names { files, folder: folder.and_then(name) }));
        let is_taken = |place: &AtomicPtr<Names>| {
            place.compare_exchange(null_mut(), names, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let place = PLACES.iter().position(is_taken);
        exchange_handlers(libc::SIG_DFL, remove_and_end as *const () as usize);
        Self(place)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let Some(place) = self.0 else { return };
        PLACES[place].store(null_mut(), Ordering::Release);
        if PLACES.iter().all(|place| place.load(Ordering::Acquire).is_null()) {
            exchange_handlers(remove_and_end as *const () as usize, libc::SIG_DFL);
        }
    }
}

/// Puts one handler in the place of another, for each of the signals that has that one: a signal that is ignored (nohup) stays so,
/// and so does one that somebody else handles.
#[expect(unsafe_code, reason = "rustix has no sigaction")]
fn exchange_handlers(from: libc::sighandler_t, to: libc::sighandler_t) {
    for signal in ENDING {
        // SAFETY: zeros are a valid sigaction, and all that is pointed to outlives the calls. The handler calls what
        // signal-safety(7) allows, and nothing else.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut before) != 0 || before.sa_sigaction != from
            {
                continue;
            }
            let mut after: libc::sigaction = std::mem::zeroed();
            after.sa_sigaction = to;
            libc::sigemptyset(&raw mut after.sa_mask);
            libc::sigaction(signal, &raw const after, null_mut());
        }
    }
}

/// Removes what passes, and ends the program as the signal would have. Where there is nothing it does nothing: it is called by
/// another handler then, which was put before it.
#[expect(unsafe_code, reason = "a handler of a signal calls the system by itself")]
extern "C" fn remove_and_end(signal: c_int) {
    let mut has_passed = false;
    for place in &PLACES {
        let names = place.load(Ordering::Acquire);
        // SAFETY: what is in a place was made by `Box::into_raw` and is never freed.
        let Some(names) = (unsafe { names.as_ref() }) else { continue };
        has_passed = true;
        for file in &names.files {
            // SAFETY: the name ends with a zero byte.
            unsafe { libc::unlink(file.as_ptr()) };
        }
        if let Some(folder) = &names.folder {
            // SAFETY: as above.
            unsafe { libc::rmdir(folder.as_ptr()) };
        }
    }
    if has_passed {
        // SAFETY: both are allowed in a handler. The signal waits until it returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// The test that is the other program, and where it says that it is.
    const OTHER: &str = "common::passing::tests::another_program_waits_with_a_folder";
    const IS_OTHER: &str = "SPINDOCTOR_TEST_PASSING_FOLDER";
    /// For a machine that has other work.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn another_program_waits_with_a_folder() {
        if std::env::var_os(IS_OTHER).is_none() {
            return;
        }
        let folder = PassingFolder::for_recording("recording").unwrap();
        std::fs::write(folder.recording.with_file_name("recording-wal"), "pages").unwrap();
        std::fs::write(&folder.recording, "pages").unwrap();
        std::thread::sleep(PATIENCE);
    }

    /// True for a signal that this program and so the other one ignores, as `nohup` and a shell's `&` have it.
    fn is_ignored(signal: Signal) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        u64::from_str_radix(ignored.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
    }

    #[test]
    fn a_signal_takes_the_folder_away_and_ends_the_program() {
        for signal in
            [Signal::INT, Signal::TERM, Signal::HUP].into_iter().filter(|signal| !is_ignored(*signal))
        {
            let place = tempfile::tempdir().unwrap();
            let mut other = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", OTHER])
                .env(IS_OTHER, "1")
                .env("TMPDIR", place.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let folders = || std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
            let is_there = || folders().any(|folder| folder.join("recording").exists());
            let begun = Instant::now();
            while !is_there() {
                assert!(begun.elapsed() < PATIENCE && other.try_wait().unwrap().is_none(), "it has a folder");
                std::thread::yield_now();
            }
            let mode = |folder: PathBuf| std::fs::metadata(folder).unwrap().permissions().mode() & 0o777;
            assert!(folders().all(|folder| mode(folder) == 0o700));
            kill_process(Pid::from_child(&other), signal).unwrap();
            assert_eq!(other.wait().unwrap().signal(), Some(signal.as_raw()));
            assert_eq!(folders().count(), 0, "nothing is left");
        }
    }

    #[test]
    fn a_folder_that_is_dropped_is_gone_and_signals_are_as_before() {
        let first = PassingFolder::for_recording("recording").unwrap();
        let second = PassingFolder::for_recording("recording").unwrap();
        let folders = [&first, &second].map(|folder| folder.recording.parent().unwrap().to_owned());
        assert!(folders.iter().all(|folder| folder.is_dir()));
        drop(first);
        assert!(!folders[0].exists() && folders[1].is_dir());
        drop(second);
        assert!(!folders[1].exists());
    }
}
