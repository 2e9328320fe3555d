//! `/proc/PID/fd` and `/proc/PID/limits`: how many files the server has open, and how many it may have.

use std::io;
use std::path::Path;

use spindoctor_model::Unavailable;
use spindoctor_model::host::OpenFiles;

use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// The server's open files.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/fd",
    help: "files that the server has open, against its limit",
    cost: "one small file and one question; before Linux 6.2 an entry for each open file, and where few are left a link for each",
    needs: "root or the server's user before Linux 6.2",
    cadence: Cadence::Ends,
    pace: Pace::host(10, 600),
    read: |target, sample, now| sample.open_files = reading(collect(target), now),
};

/// Links that are looked at, at most: as many as servers may have open that somebody gave many.
const MOST_LINKS: usize = 65_536;

fn collect(target: &Target) -> Result<OpenFiles, Unavailable> {
    let path = target.process("limits");
    let limit = parse_limit(&kernel_file::read(&path)?).ok_or_else(|| kernel_file::unknown_form(&path))?;
    let folder = target.process("fd");
    let open = count(target, &folder).map_err(|error| kernel_file::because(&folder, &error))?;
    let files = OpenFiles { open, limit: Some(limit).filter(|&limit| limit != u64::MAX), sockets: None };
    let sockets = files.few_are_left().then(|| sockets(&folder).ok()).flatten();
    Ok(OpenFiles { sockets, ..files })
}

/// Linux 6.2 and later give the number as the folder's size, without listing it; older kernels give 0 (`proc_fd_getattr` in
/// fs/proc/fd.c).
fn count(target: &Target, folder: &Path) -> io::Result<u64> {
    let said = if target.is_live() { std::fs::metadata(folder)?.len() } else { 0 };
    match said {
        0 => Ok(std::fs::read_dir(folder)?.count() as u64),
        said => Ok(said),
    }
}

fn sockets(folder: &Path) -> io::Result<u64> {
    let links = std::fs::read_dir(folder)?.take(MOST_LINKS).flatten();
    let is_socket = |link: &std::fs::DirEntry| {
        std::fs::read_link(link.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:["))
    };
    Ok(links.filter(is_socket).count() as u64)
}

/// How many files the process may have open: the soft limit of `/proc/PID/limits`, `u64::MAX` where it is `unlimited`.
///
/// ```text
/// Limit                     Soft Limit           Hard Limit           Units
/// Max open files            1024                 524288               files
/// ```
/// (Linux 6.18, proc_pid_limits(5).)
pub fn parse_limit(text: &str) -> Option<u64> {
    let soft = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match soft.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, put, target};
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max processes             unlimited            unlimited            processes \n\
                          Max open files            12                   524288               files     \n";

    #[test]
    fn the_soft_limit_is_the_one_that_holds() {
        assert_eq!(parse_limit(LIMITS), Some(12));
        assert_eq!(
            parse_limit("Max open files            unlimited            unlimited  files\n"),
            Some(u64::MAX)
        );
        assert_eq!(parse_limit("Max open files\n"), None);
    }

    #[test]
    fn connections_are_counted_where_few_files_are_left() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/limits", LIMITS);
        let folder = root.path().join("proc/7/fd");
        std::fs::create_dir_all(&folder).unwrap();
        let open = |number: u32, to: &str| {
            std::os::unix::fs::symlink(to, folder.join(number.to_string())).unwrap();
        };
        open(0, "/dev/null");
        let of = || collect(&target(root.path())).unwrap();
        assert_eq!(of(), OpenFiles { open: 1, limit: Some(12), sockets: None });
        (1..4).for_each(|number| open(number, "socket:[81]"));
        open(4, "/var/lib/mysql/ibdata1");
        assert_eq!(of(), OpenFiles { open: 5, limit: Some(12), sockets: Some(3) });
    }

    #[test]
    fn this_process_answers_and_one_that_is_not_there_says_so() {
        let own = collect(&Target::live(std::process::id())).unwrap();
        let listed = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        // Other tests of this program open and close files meanwhile, where they share its process.
        assert!(own.open >= 3 && own.open.abs_diff(listed) < 200, "{own:?}, {listed} listed");
        let root = tempfile::tempdir().unwrap();
        assert!(collect(&target(root.path())).unwrap_err().because.starts_with("there is no "));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_limit);
    }
}
