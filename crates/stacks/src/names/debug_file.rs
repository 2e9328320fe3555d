//! Where a file's separate debug information is.
//!
//! In: an ELF file and the path that the process knows it by. Out: its debug file: by build id below
//! `/usr/lib/debug/.build-id`, by `.gnu_debuglink` beside the file, in `.debug` beside it, and below
//! `/usr/lib/debug` (the order of gdb, "Debugging Information in Separate Files"); each in the process's own
//! root first, then in ours. A file counts only where its build id, or else its checksum, is the right one.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::module::elf::Elf;

const DEBUG: &str = "/usr/lib/debug";

/// The debug file of `elf`, opened, and its path.
pub(crate) fn find(elf: &Elf, path: &str, pid: u32) -> Option<(Arc<Elf>, PathBuf)> {
    let link = elf.debug_link();
    let roots = [format!("/proc/{pid}/root"), String::new()];
    let places = candidates(path, elf.build_id(), link.as_ref().map(|(name, _)| name.as_slice()));
    for root in &roots {
        for place in &places {
            let place = PathBuf::from(format!("{root}/")).join(place.strip_prefix("/").unwrap_or(place));
            let Ok(found) = File::open(&place).map_err(drop).and_then(|file| Elf::open(&file).map_err(drop))
            else {
                continue;
            };
            if belongs(elf, &found, link.as_ref().map(|(_, crc)| *crc)) {
                return Some((Arc::new(found), place));
            }
        }
    }
    None
}

/// `.gnu_debugaltlink`: what several debug files of one package share (dwz), and its path.
pub(crate) fn shared(debug: &Elf, debug_path: &Path) -> Option<PathBuf> {
    let object = debug.object()?;
    let (name, _) = object::Object::gnu_debugaltlink(&object).ok()??;
    // Relative to the folder of the debug file, as dwz writes it.
    Some(debug_path.parent()?.join(OsStr::from_bytes(name)))
}

fn candidates(path: &str, build_id: Option<&str>, link: Option<&[u8]>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some((folder, file)) = build_id.and_then(|id| id.split_at_checked(2)) {
        places.push(Path::new(DEBUG).join(".build-id").join(folder).join(format!("{file}.debug")));
    }
    if let (Some(name), Some(folder)) = (link, Path::new(path).parent()) {
        let name = OsStr::from_bytes(name);
        places.push(folder.join(name));
        places.push(folder.join(".debug").join(name));
        places.push(Path::new(DEBUG).join(folder.strip_prefix("/").unwrap_or(folder)).join(name));
    }
    places
}

fn belongs(elf: &Elf, debug: &Elf, crc: Option<u32>) -> bool {
    match (elf.build_id(), debug.build_id()) {
        (Some(of_file), Some(of_debug)) => of_file == of_debug,
        // Reads the whole file, once: only files without a build id come here.
        _ => crc.is_some_and(|crc| crc == debug.checksum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_files_are_looked_for_where_gdb_does() {
        let places = candidates("/usr/sbin/mysqld", Some("abcdef01"), Some(b"cdef01.debug"));
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
}
