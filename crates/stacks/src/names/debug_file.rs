//! Where a file's separate debug information is.
//!
//! In: an ELF file and the path that the process knows it by. Out: its debug file: by build id below
//! `/usr/lib/debug/.build-id`, by `.gnu_debuglink` beside the file, in `.debug` beside it, and below
//! `/usr/lib/debug` (the order of gdb, "Debugging Information in Separate Files"); in the process's own root first, then,
//! below `/usr/lib/debug` alone, in ours. A file counts only where its build id, or else its checksum, is the right one.
//!
//! The process chooses what its files say, so a link is a base name and nothing else, and what is found is opened as
//! [`crate::target_file`] does: below that root, and only a regular file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::module::elf::Elf;
use crate::target_file::{Root, base_name};

const DEBUG: &str = "/usr/lib/debug";

/// Where dwz puts what debug files share.
const SHARED: &str = ".dwz";

/// The debug file of `elf`.
pub(crate) fn find(elf: &Elf, path: &str, pid: u32) -> Option<Arc<Elf>> {
    let link = elf.debug_link();
    let name = link.as_ref().and_then(|(name, _)| base_name(name));
    let places = candidates(path, elf.build_id(), name);
    in_roots(&places, pid, elf, |found| belongs(elf, found, link.as_ref().map(|(_, crc)| *crc)))
}

/// `.gnu_debugaltlink`: what several debug files of one package share (dwz), below `/usr/lib/debug/.dwz`, or by its build
/// id.
pub(crate) fn shared(debug: &Elf, pid: u32) -> Option<Arc<Elf>> {
    let (name, id) = debug.shared_link()?;
    let places: Vec<PathBuf> = below_shared(&name).into_iter().chain(by_build_id(&id)).collect();
    in_roots(&places, pid, debug, |found| found.build_id() == Some(id.as_str()))
}

/// The first of these places where there is the right file: in the process's root, then in ours.
fn in_roots(places: &[PathBuf], pid: u32, like: &Elf, is_right: impl Fn(&Elf) -> bool) -> Option<Arc<Elf>> {
    let roots = [(Root::of_process(pid), true), (Root::at(Path::new("/")), false)];
    for (root, is_theirs) in roots {
        let Ok(root) = root else { continue };
        for place in places.iter().filter(|place| is_theirs || place.starts_with(DEBUG)) {
            if let Ok(file) = root.file(place)
                && let Ok(found) = Elf::open(file, like.budget())
                && is_right(&found)
            {
                return Some(Arc::new(found));
            }
        }
    }
    None
}

fn candidates(path: &str, build_id: Option<&str>, link: Option<&OsStr>) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = build_id.and_then(by_build_id).into_iter().collect();
    if let (Some(name), Some(folder)) = (link, Path::new(path).parent()) {
        places.push(folder.join(name));
        places.push(folder.join(".debug").join(name));
        if let Ok(below) = folder.strip_prefix("/")
            && is_plain(below)
        {
            places.push(Path::new(DEBUG).join(below).join(name));
        }
    }
    places
}

/// `/usr/lib/debug/.build-id/ab/cdef01.debug`
fn by_build_id(id: &str) -> Option<PathBuf> {
    let (folder, file) = id.split_at_checked(2).filter(|(_, file)| !file.is_empty())?;
    Some(Path::new(DEBUG).join(".build-id").join(folder).join(format!("{file}.debug")))
}

/// `/usr/lib/debug/.dwz/x86_64-linux-gnu/mysql-server.debug`, however the link leads there (`../../.dwz/...`).
fn below_shared(name: &[u8]) -> Option<PathBuf> {
    let name = Path::new(OsStr::from_bytes(name));
    let mut parts = name.components();
    parts.by_ref().find(|part| part.as_os_str() == SHARED)?;
    let below = parts.as_path();
    (is_plain(below) && !below.as_os_str().is_empty()).then(|| Path::new(DEBUG).join(SHARED).join(below))
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn belongs(elf: &Elf, debug: &Elf, crc: Option<u32>) -> bool {
    match (elf.build_id(), debug.build_id()) {
        (Some(of_file), Some(of_debug)) => of_file == of_debug,
        // Reads the whole file, once: only files without a build id come here.
        _ => crc.is_some_and(|crc| debug.checksum() == Some(crc)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_files_are_looked_for_where_gdb_does() {
        let places = candidates("/usr/sbin/mysqld", Some("abcdef01"), Some(OsStr::new("cdef01.debug")));
        let places: Vec<&str> = places.iter().map(|place| place.to_str().unwrap()).collect();
        assert_eq!(
            places,
            [
                "/usr/lib/debug/.build-id/ab/cdef01.debug",
                "/usr/sbin/cdef01.debug",
                "/usr/sbin/.debug/cdef01.debug",
                "/usr/lib/debug/usr/sbin/cdef01.debug"
            ]
        );
        assert_eq!(candidates("[vdso]", Some("a"), None), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_debug_files_share_lies_in_its_folder_and_nowhere_else() {
        let found = |name: &str| below_shared(name.as_bytes()).map(|path| path.display().to_string());
        let expected = Some("/usr/lib/debug/.dwz/x86_64-linux-gnu/mysql.debug".to_owned());
        assert_eq!(found("../../.dwz/x86_64-linux-gnu/mysql.debug"), expected);
        assert_eq!(found("/usr/lib/debug/.dwz/x86_64-linux-gnu/mysql.debug"), expected);
        for hostile in
            ["/dev/zero", "../../../etc/shadow", ".dwz", "/.dwz/../../../dev/zero", ".dwz/a/../../b", ""]
        {
            assert_eq!(found(hostile), None, "{hostile}");
        }
        assert_eq!(by_build_id("ab"), None);
    }
}
