//! Files that somebody named to be read: regular files, and pipes that somebody writes into. Nothing else is waited for.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::retry_on_intr;

/// So long somebody may take to open a pipe for writing: shells start both ends of it at once.
const WRITER_WITHIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A file that somebody named.
#[derive(Debug)]
pub struct Named {
    file: File,
    is_pipe: bool,
    has_begun: bool,
}

/// Opens a file that somebody named. A pipe is read as far as it is written, like that of `<(...)`; one that nobody writes
/// into, and a file of the kernel's whose reader would wait for what is still to come (`/proc/kmsg`), are an error when they
/// are read.
///
/// # Errors
/// The system's.
pub fn open_named(path: &Path) -> io::Result<Named> {
    // Opening a pipe would wait for its other end.
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    Ok(Named { file, is_pipe, has_begun: false })
}

impl Named {
    /// What the system says of it.
    ///
    /// # Errors
    /// The system's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Has it read from this byte on.
    ///
    /// # Errors
    /// The system's: a pipe has no places.
    pub fn skip_to(&mut self, at: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at)).map(drop)
    }

    /// Waits until there is something to read, or the last writer is gone; false where nothing came of it.
    fn is_ready(&self, within: Option<&Timespec>) -> io::Result<bool> {
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(&self.file, PollFlags::IN)], within))?;
        Ok(ready > 0)
    }
}

impl Read for Named {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                // Until somebody has written a pipe is at its end.
                Ok(0) if self.is_pipe && !self.has_begun && !buffer.is_empty() => {
                    self.has_begun = true;
                    if !self.is_ready(Some(&WRITER_WITHIN))? {
                        return Err(io::Error::other(
                            "there is nothing to read: nobody writes into this pipe",
                        ));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.is_pipe => {
                    self.has_begun = true;
                    self.is_ready(None)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other(
                        "it has no end: its reader waits for what is still to come",
                    ));
                }
                read => {
                    self.has_begun = true;
                    return read;
                }
            }
        }
    }
}
